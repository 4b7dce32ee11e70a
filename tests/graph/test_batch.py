"""Batches that stay free although a model computes masks and positions for all their rows."""

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from mase_hw.emit.flow import quantize
from mase_hw.graph import MaseGraph, trace
from mase_hw.graph._given import plain
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes.configuration import FLOAT
from tests.bench.architectures import ARCHITECTURES, model_and_inputs
from tests.modules import Layers

ROWS, LENGTH = 5, 6
# Of a tensor's largest element. Which kernels torch takes, and so the order of their sums, depends
# on the processor; deep networks of unit-sized weights differ by up to 1e-5 then. A wrong constant,
# mask or row differs by far more than the next power of ten.
ORDER = 3e-5


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Raise unless two tensors are equal but for the order of sums; whole numbers are exact."""
    assert found.dtype == expected.dtype
    largest = 0.0
    if expected.is_floating_point():
        largest = max(expected[expected.isfinite()].abs().flatten().tolist(), default=0.0)
    torch.testing.assert_close(found, expected, rtol=0, atol=ORDER * largest)


def mask_by_index(m, x, mask):
    rows = torch.arange(x.shape[0])[:, None, None]
    columns = torch.arange(LENGTH)[None, None, :]
    return x + mask[rows, columns].squeeze(1)[..., None]


def repeated(m, x, mask):
    positions = torch.arange(LENGTH).expand(x.shape[0], -1)
    allowed = (positions[:, None] <= positions[..., None]).repeat(1, 1, 1)
    return x + m.table(positions) + allowed.float().mean(1)[..., None]


def token(m, x, mask):
    """Put a token of its own before all others, as classifiers of images do."""
    return torch.cat([(m.first * 2).expand(x.shape[0], -1, -1), x], dim=1)


def picked(m, x, mask):
    last = mask.int().sum(1) - 1
    return x[torch.arange(x.shape[0]), last], x[torch.arange(x.shape[0]), last - LENGTH]


def picked_kind(m, x, mask):
    positions = mask.int().cumsum(1).long()
    return x + torch.gather(m.kinds.expand(x.shape[0], -1), 1, positions)[..., None]


def overwritten(m, x, mask):
    """Begin with a state of zeros, which is overwritten."""
    state = torch.zeros(x.shape[0], 4)
    state.copy_(x[:, 0] * 2)
    return state + x[:, 1]


def windows(m, x, mask):
    """Add a mask of every window, for batch and windows in one dimension."""
    parts = x.reshape(-1, 2, 4)
    shifts = (m.shifts * 2)[None].expand(x.shape[0], -1, -1, -1).reshape(-1, 2, 2)
    return (torch.bmm(parts, parts.mT) + shifts).reshape(x.shape[0], -1)


def heads(m, x, mask):
    """Attend with a query for every row, whose heads lie in one dimension with the batch."""
    return m.attention(m.query.repeat(x.shape[0], 1, 1), x, x)[0]


def masked_heads(m, x, mask):
    """Attend with a mask for each head, repeated for every row as torch's attention takes it."""
    return m.attention(x, x, x, attn_mask=m.hidden.repeat(x.shape[0], 1, 1))[0]


def begun(m, x, mask):
    """Begin states at constants made beside the rows."""
    state = x.new_zeros(x.shape[0], 4) + x.new_full((x.size(0), 1), 0.5)
    for step in x.unbind(1):
        state = torch.tanh(state + step) * x.new_ones(x.shape[0], 4)
    return state


def ordered(m, x, mask):
    """Take elements of all rows in an order of their own, and back in that of the rows."""
    flat = x.reshape(-1)
    order = torch.sort(flat.detach())[1]
    back = torch.empty_like(order)
    back[order] = torch.arange(order.shape[0])
    return flat[order].exp()[back].reshape(x.shape)


def model_of(function):
    torch.manual_seed(0)
    hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    return Layers(
        function,
        table=nn.Embedding(LENGTH, 4),
        attention=nn.MultiheadAttention(4, 2, batch_first=True),
        query=nn.Parameter(torch.randn(1, 1, 4)),
        first=torch.arange(4.0).reshape(1, 1, 4),
        kinds=torch.arange(9)[None] % 2,
        shifts=torch.arange(12.0).reshape(3, 2, 2),
        hidden=torch.stack([hidden, hidden.T]),
    )


def inputs(rows):
    torch.manual_seed(rows)
    mask = torch.rand(rows, LENGTH) < 0.7
    mask[:, 0] = True
    return torch.randn(rows, LENGTH, 4), mask


KINDS = [
    mask_by_index, repeated, token, picked, picked_kind, overwritten, windows, heads,
    masked_heads, begun, ordered,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_the_same_for_every_row_leaves_the_batch_free(kind):
    model = model_of(kind).eval()
    mg = trace(model, inputs(2))
    assert mg.batched
    for rows in (1, ROWS):
        found, expected = (tree_leaves(item(*inputs(rows))) for item in (mg, model))
        for left, right in zip(found, expected, strict=True):
            # Attention is captured batch first, in another order of sums.
            torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-6)


def test_what_is_repeated_for_rows_is_trained_and_saved(tmp_path):
    model = model_of(heads).train()
    mg = trace(model, inputs(2))
    x, mask = inputs(ROWS)
    for module in (model, mg):
        module(x, mask).square().sum().backward()
    own, found = (dict(module.named_parameters()) for module in (model, mg))
    torch.testing.assert_close(found["query"].grad, own["query"].grad)
    mg.save(tmp_path / "heads.mase")
    assert torch.equal(MaseGraph.load(tmp_path / "heads.mase")(x, mask), mg(x, mask))


def backwards(m, x, mask):
    """Take rows by their number: no slice of all rows."""
    return x[torch.arange(x.shape[0] - 1, -1, -1), torch.arange(x.shape[0]) % LENGTH]


def test_rows_that_depend_on_their_number_fix_the_batch():
    model = Layers(backwards).eval()
    mg = trace(model, inputs(2))
    assert not mg.batched
    assert torch.equal(mg(*inputs(2)), model(*inputs(2)))


def tensors(outputs):
    return [leaf for leaf in tree_leaves(plain(outputs)) if isinstance(leaf, torch.Tensor)]


def check(name, attention):
    model, batch = model_and_inputs(name, attention)
    with torch.no_grad():
        expected = tensors(model(**batch))
        mg = trace(model, batch)
        for graph in (mg, quantize(mg, FLOAT)):
            found = tensors(graph(**batch))
            for left, right in zip(found, expected, strict=True):
                assert_same(left, right)
        more = {name: torch.cat([item, item.flip(0)[:1]]) for name, item in batch.items()}
        if mg.batched:
            for left, right in zip(tensors(mg(**more)), tensors(model(**more)), strict=True):
                assert_same(left, right)
    return mg


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "name", ["BertForSequenceClassification", "LlamaForCausalLM", "T5ForConditionalGeneration"]
)
def test_transformers_have_a_free_batch_with_masks_and_caches(name):
    mg = check(name, "sdpa")
    assert mg.batched
    if name != "BertForSequenceClassification":
        # Transformers calls the cache `past_key_values`, or `cache` from 5.24 on.
        assert any(name.endswith("layers.0.keys") for name in mg.output_names)


@pytest.mark.full
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_have_a_free_batch(name, attention):
    assert check(name, attention).batched


LINEAR = {"name": "fixed", "data_in_width": 16, "weight_width": 16, "bias_width": 16}


@pytest.mark.full
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_without_rounding_are_float(name):
    model, batch = model_and_inputs(name)
    mg = quantize(trace(model, batch), {"by": "type", "linear": {"config": LINEAR}})
    with torch.no_grad():
        expected = tensors(model(**batch))
        found = tensors(GraphRun(mg, only=())(mg.example_inputs))
    for left, right in zip(found, expected, strict=True):
        assert_same(left, right)
