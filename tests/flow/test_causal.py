"""Causal attention computes what lies up to the diagonal alone: exact, in the predicted cycles."""

import shutil
from math import ceil

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attention

import mase_hw
from mase_hw.emit.flow import to_hardware
from mase_hw.graph.nodes import common, metadata
from mase_hw.ops import Apply
from tests.engines import each
from tests.flow.perceptrons import assert_as_predicted

LOWEST = torch.finfo(torch.float32).min
FULL = pytest.mark.full


def entry(name="fixed", **widths):
    return {"config": {"name": name, **widths}}


WIDE = {"data_in_width": 14, "weight_width": 8}
NARROW = {"data_in_width": 8, "weight_width": 8}
CONFIG = {"by": "type", "default": entry(**NARROW)}
CASTS = {**CONFIG, "softmax": entry(data_in_width=10, data_out_width=7)}


def lower(tokens):
    return torch.ones(tokens, tokens, dtype=torch.bool).tril()


def values(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def fused(tokens, width=4, heads=2, shared=2, **options):
    """Heads inside of tokens, as they come from layers."""

    def attend(x, y, z):
        key, value = split(y, shared), split(z, shared)
        found = attention(split(x, heads), key, value, enable_gqa=shared < heads, **options)
        return found.transpose(1, 2).flatten(-2)

    narrow = width * shared // heads
    inputs = [values(4, tokens, size, seed=size) for size in (width, narrow, narrow)]
    return Apply(attend), tuple(inputs)


def outside(tokens, heads=2, shared=2):
    """Heads one after the other, each with all tokens."""
    inputs = [values(4, count, tokens, 3, seed=count) for count in (heads, shared, shared)]
    attend = lambda x, y, z: attention(x, y, z, is_causal=True, enable_gqa=shared < heads)  # noqa: E731
    return Apply(attend), tuple(inputs)


def written_out(tokens, masked, weigh=lambda weights, value: weights @ value):
    def attend(x, y):
        query, key = split(x, 2), split(y, 2)
        scores = masked(query @ key.transpose(2, 3) * 0.5)
        return weigh(torch.softmax(scores, -1), key)

    return Apply(attend), (values(4, tokens, 4), values(4, tokens, 4, seed=1))


def filled(tokens):
    return written_out(tokens, lambda scores: scores.masked_fill(~lower(tokens), float("-inf")))


def biased(tokens):
    mask = torch.where(lower(tokens), values(2, tokens, tokens), LOWEST)
    return fused(tokens, attn_mask=mask)


def window(tokens):
    return fused(tokens, attn_mask=lower(tokens).triu(-2))


def padded(tokens):
    def attend(x, kept):
        mask, query = kept.bool()[:, None, None, :] & lower(tokens), split(x, 2)
        return attention(query, query, query, attn_mask=mask)

    return Apply(attend), (values(4, tokens, 4), (values(4, tokens, seed=1) > -1).long())


def single(tokens):
    """One head, without a dimension of its own."""

    def attend(x, y):
        scores = torch.bmm(x, y.transpose(1, 2)).masked_fill(~lower(tokens), LOWEST)
        return torch.bmm(torch.softmax(scores, -1), y)

    return Apply(attend), (values(4, tokens, 3), values(4, tokens, 3, seed=1))


# A model with inputs, elements of a beat, and a configuration.
CASES = {
    "heads": (fused(5, is_causal=True), 2, CONFIG),
    "an element a beat": (fused(4, is_causal=True), 1, CONFIG),
    "a tail": (filled(7), 3, CONFIG),
    "four of nine": (fused(9, 8, is_causal=True), 4, CONFIG),
    "shared keys": (fused(4, heads=4, shared=2, is_causal=True), 1, CONFIG),
    "heads outside": (outside(5), 2, CONFIG),
    "shared keys, heads outside": (outside(3, 4, 2), 1, CONFIG),
    "a bias": (biased(5), 2, CONFIG),
    "a window": (window(6), 1, CONFIG),
    "padding": (padded(5), 2, CONFIG),
    "single": (single(5), 2, CONFIG),
    "wide": (fused(3, is_causal=True), 2, {"by": "type", "default": entry(**WIDE)}),
    "casts": (filled(5), 2, CASTS),
}
QUICK = ("heads", "padding")


def graph(name):
    (model, inputs), _, config = CASES[name]
    return mase_hw.quantize(mase_hw.trace(model, inputs), config)


def work(mg, operator):
    return [
        metadata(node).hardware.work_cycles
        for node in mg.nodes
        if node.op == "call_function" and common(node).operator == operator
    ]


@pytest.mark.parametrize("name", CASES)
def test_work_is_that_of_rows_up_to_the_diagonal(name):
    _, lanes, _ = CASES[name]
    mg = to_hardware(graph(name), parallelism=lanes)
    (softmax,) = work(mg, "softmax")
    scores = next(node for node in mg.nodes if common(node).operator == "softmax")
    *leading, tokens, _ = common(scores).results["data_out_0"].shape
    beats = sum(ceil((row + 1) / lanes) for row in range(tokens))
    assert softmax == torch.Size(leading).numel() * beats
    query = next(node for node in mg.nodes if common(node).operator == "matmul")
    size = common(query).operands["data_in_0"].shape[-1]
    assert work(mg, "matmul")[0] == softmax * ceil(size / lanes)


@each
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else FULL) for name in CASES]
)
def test_a_case_is_exact_and_takes_the_cycles_that_are_predicted(name, engine, tmp_path):
    project = mase_hw.emit_verilog(graph(name), output=tmp_path, parallelism=CASES[name][1])
    assert_as_predicted(project, engine)


def test_the_interval_is_the_bound_where_attention_is_slowest():
    """Tokens come evenly, and late ones take longer: about a quarter of them wait."""
    tokens, width = 16, 8
    mg = mase_hw.trace(CausalBlock(width), values(2, tokens, width))
    mg = mase_hw.quantize(mg, CONFIG)
    mg = to_hardware(mg, parallelism=1)
    bound = 2 * tokens * (tokens + 1) // 2 * width // 2
    assert work(mg, "matmul") == [bound, bound]
    (queue,) = (node.args[1] for node in mg.nodes if node.name == "q_fifo")
    assert tokens * width // 5 <= queue <= tokens * width // 3


class CausalBlock(nn.Module):
    """Self-attention with layers before it."""

    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        streams = [split(layer(x), 2) for layer in (self.q, self.k, self.v)]
        return attention(*streams, is_causal=True).transpose(1, 2).flatten(-2)


def seen_twice(tokens):
    weigh = lambda weights, value: (weights @ value, weights.mean(1))  # noqa: E731
    return written_out(tokens, lambda s: s.masked_fill(~lower(tokens), LOWEST), weigh)


def doubled(tokens):
    """What is not zero where weights are zero."""
    weigh = lambda weights, value: torch.exp(weights) @ value  # noqa: E731
    return written_out(tokens, lambda s: s.masked_fill(~lower(tokens), LOWEST), weigh)


WHOLE = {
    "no mask": (fused(5), CONFIG, 2),
    "a key beyond": (fused(5, attn_mask=lower(5).logical_or(torch.eye(5).roll(1, 1).bool())),
                     CONFIG, 2),
    "more keys": ((Apply(lambda x, y: attention(x, y, y, is_causal=True)),
                   (values(4, 2, 3, 4), values(4, 2, 5, 4))), CONFIG, 2),
    "weights are a result": (seen_twice(5), CONFIG, 2),
    "not zero": (doubled(5), CONFIG, 2),
    "a row a beat": (fused(4, 8, is_causal=True), CONFIG, 4),
    "other lanes behind": (
        filled(4), CONFIG, {"softmax": {"data_out_0_dim_0": 2}, "matmul_1": {"data_in_0_dim_0": 1}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_rows_stay_whole_where_something_needs_them(name):
    (model, inputs), config, parallelism = WHOLE[name]
    mg = mase_hw.quantize(mase_hw.trace(model, inputs), config)
    mg = to_hardware(mg, parallelism=parallelism)
    specs = [
        spec
        for node in mg.nodes
        if node.op == "call_function"
        for spec in (*common(node).operands.values(), *common(node).results.values())
    ]
    assert not any(spec.grows for spec in specs)


@pytest.mark.full
@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("mase_growing_counter", "stop = wraps ? First : grows", "stop = grows"),
        pytest.param("mase_growing_walk", "segment + WIDTH'(STRIDE)", "segment", marks=FULL),
        pytest.param(
            "mase_row_store", "(Depth - 1) / ((EVERY > 0) ? 1 : ROW) + 1", "2", marks=FULL
        ),
    ],
)
def test_a_fault_in_what_grows_is_found(module, old, new, project, tmp_path):
    copy = shutil.copytree(project.folder, tmp_path / "broken")
    path = copy / "rtl" / f"{module}.sv"
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    try:
        report = mase_hw.simulate(copy, samples=4, seed=1, stall=0.3)
    except mase_hw.MaseError as error:
        assert "stop" in str(error), error
    else:
        assert not report.bit_exact


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("causal")
    return mase_hw.emit_verilog(graph("heads"), output=folder / "net", parallelism=2)
