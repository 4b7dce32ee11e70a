"""Masks of attention, however they are spelled, become what a constant and an input leave out."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.emit.preflight import preflight
from mase_hw.ops import Apply
from tests.modules import Layers

TOKENS, HEADS, SIZE = 5, 2, 3
LOWEST = torch.finfo(torch.float32).min
CAUSAL = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
BIAS = torch.randn(HEADS, TOKENS, TOKENS, generator=torch.Generator().manual_seed(3))
PADDED, MASKED = "mase.padded_attention.default", "mase.masked_softmax.default"
ATTENTION = "aten.scaled_dot_product_attention.default"


def heads(x):
    return x.reshape(x.shape[0], TOKENS, HEADS, SIZE).transpose(1, 2)


def fused(mask, **options):
    def attend(x, kept):
        query = heads(x)
        attention = nn.functional.scaled_dot_product_attention
        return attention(query, query, query, attn_mask=mask(kept), **options)

    return Apply(attend)


def written_out(masked):
    def attend(x, kept):
        query = heads(x)
        scores = masked(query @ query.transpose(2, 3) * 0.5, kept)
        return torch.softmax(scores, -1) @ query

    return Apply(attend)


def keys(kept):
    return kept[:, None, None, :]


FUSED = {
    "bool": lambda kept: keys(kept.bool()),
    "not zero": lambda kept: keys(kept.ne(0)),
    "more than zero": lambda kept: keys(kept > 0),
    "expanded": lambda kept: keys(kept.bool()).expand(-1, 1, TOKENS, -1),
    "causal too": lambda kept: keys(kept.bool()) & CAUSAL,
    "added": lambda kept: (1.0 - keys(kept).float()) * LOWEST,
    "a bias too": lambda kept: torch.where(keys(kept.bool()) & CAUSAL, BIAS, LOWEST),
    "indexed": lambda kept: kept.bool()[:, torch.arange(TOKENS)][:, None, None, :],
}
WRITTEN_OUT = {
    "added": lambda scores, kept: scores + (1.0 - keys(kept).float()) * LOWEST,
    "added first": lambda scores, kept: (1.0 - keys(kept).float()) * LOWEST + scores,
    "chosen": lambda scores, kept: torch.where(keys(kept.bool()), scores, LOWEST),
    "filled": lambda scores, kept: scores.masked_fill(keys(kept == 0), float("-inf")),
    "filled twice": lambda scores, kept: (
        torch.where(CAUSAL, scores, torch.tensor(LOWEST))
        + torch.where(keys(kept.bool()), 0.0, LOWEST)
    ),
    "a bias too": lambda scores, kept: scores + torch.where(keys(kept.bool()), BIAS, LOWEST),
}
# The input is not zero for the keys that are left out.
TURNED = {
    "fused": (fused(lambda left: ~keys(left.bool())), PADDED),
    "fused and added": (fused(lambda left: keys(left).float() * LOWEST), PADDED),
    "filled": (
        written_out(lambda scores, left: scores.masked_fill(keys(left > 0), float("-inf"))),
        MASKED,
    ),
}
# None of these leaves out the keys that are zero in the input.
OTHERS = {
    "queries": lambda kept: kept.bool()[:, None, :, None].expand(-1, 1, -1, TOKENS),
    "queries too": lambda kept: keys(kept.bool()) & kept.bool()[:, None, :, None],
    "a neighbour too": lambda kept: keys(kept.bool()) | keys(kept.bool()).roll(1, -1),
    "scaled": lambda kept: (1.0 - keys(kept).float()) * -3.0,
}
# The keys that are zero in what is computed of the input.
COMPUTED = {
    "a neighbour": lambda kept: keys(kept.bool() | kept.bool().roll(1, -1)),
    "the others": lambda kept: keys(kept == 0),
    "all but a number": lambda kept: keys(kept != 1),
}


def examples():
    torch.manual_seed(0)
    kept = torch.tensor([[1] * TOKENS, [1, 1, 0, 1, 0], [1, 0, 0, 0, 0]])
    return torch.randn(3, TOKENS, HEADS * SIZE), kept


def targets(mg):
    return [str(node.target) for node in mg.nodes if node.op == "call_function"]


X, KEPT = examples()
CONSTANT = torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, LOWEST)
RAISED = {
    **{f"fused, {name}": (fused(mask), PADDED, (X, KEPT)) for name, mask in FUSED.items()},
    **{f"{name}": (written_out(mask), MASKED, (X, KEPT)) for name, mask in WRITTEN_OUT.items()},
    **{f"turned, {name}": (*model, (X, 1 - KEPT)) for name, model in TURNED.items()},
    "constant": (
        Apply(lambda x: torch.softmax(heads(x) @ heads(x).transpose(2, 3) + CONSTANT, -1) * 2),
        MASKED,
        (X,),
    ),
    **{f"computed, {name}": (fused(mask), PADDED, (X, KEPT)) for name, mask in COMPUTED.items()},
}


@pytest.mark.parametrize("name", RAISED)
def test_a_mask_is_raised(name):
    model, target, inputs = RAISED[name]
    mg = canonicalize(mase_hw.trace(model, inputs))
    assert target in targets(mg)
    with torch.no_grad():
        torch.testing.assert_close(mg(*inputs), model(*inputs), rtol=1e-6, atol=1e-6)
    problems = preflight(mase_hw.quantize(mg))
    if name.startswith("computed"):
        problems = [item for item in problems if "its mask is computed" in str(item)]
    assert problems == []


@pytest.mark.parametrize("name", OTHERS)
def test_another_mask_stays(name):
    mg = canonicalize(mase_hw.trace(fused(OTHERS[name]), (X, KEPT)))
    assert PADDED not in targets(mg)
    assert ATTENTION in targets(mg)
    problems = preflight(mase_hw.quantize(mg))
    assert any("its mask is computed" in str(problem) for problem in problems)


def test_the_numbers_of_tokens_say_which_are_padding():
    """A classifier that pads with the id 0 needs no input for the mask."""

    model = Layers(
        lambda m, ids: m.attend(m.embedding(ids), ids),
        embedding=nn.Embedding(40, HEADS * SIZE),
        attend=fused(lambda ids: keys(ids.ne(0))),
    )
    ids = torch.tensor([[3, 39, 7, 0, 0], [1, 2, 3, 4, 5]])
    mg = mase_hw.quantize(mase_hw.trace(model, ids))
    assert PADDED not in targets(mg)
    assert preflight(mg) == []
    assert mg.inputs[0].meta["mase"].common.results["data_out_0"].format.width == 6


WINDOWS = 4


class Windows(nn.Module):
    """Attention in windows, which lie in front with the batch; each has a mask of its own."""

    def __init__(self, how, fill):
        super().__init__()
        self.how = how
        places = torch.randint(0, 2, (WINDOWS, TOKENS), generator=torch.Generator().manual_seed(5))
        apart = places[:, :, None] != places[:, None, :]
        self.register_buffer("mask", torch.zeros(apart.shape).masked_fill(apart, fill))
        self.bias = nn.Parameter(BIAS)

    def forward(self, x):
        query, rows = heads(x.reshape(-1, TOKENS, HEADS * SIZE)), x.shape[0]
        return self.attend(query, rows).reshape(rows, WINDOWS, HEADS, TOKENS, SIZE)

    def attend(self, query, rows):
        mask = self.mask[:, None].repeat(rows, 1, 1, 1)
        if self.how == "fused":
            mask = mask + self.bias
            return nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)
        scores = query @ query.transpose(2, 3) * 0.5
        if self.how == "filled":
            scores = scores.masked_fill(mask < 0, float("-inf"))
        elif self.how == "apart":
            scores = scores.reshape(rows, WINDOWS, HEADS, TOKENS, TOKENS) + self.mask[:, None]
            scores = scores.reshape(-1, HEADS, TOKENS, TOKENS)
        else:
            scores = scores + mask
        return torch.softmax(scores, -1) @ query


@pytest.mark.parametrize("how", ["fused", "added", "filled", "apart"])
@pytest.mark.parametrize("fill", [-1e9, -100.0])
def test_each_window_of_an_inference_has_a_mask(how, fill):
    model = Windows(how, fill)
    shape = (WINDOWS, TOKENS, HEADS * SIZE)
    generator = torch.Generator().manual_seed(0)
    # A fill that is no mask is bounded by what the examples show.
    examples = torch.randn(32, *shape, generator=generator)
    mg = canonicalize(mase_hw.trace(model, examples))
    for rows in (1, 3):
        x = torch.randn(rows, *shape, generator=generator)
        torch.testing.assert_close(mg(x), model(x))
    assert preflight(mase_hw.quantize(mg)) == []


def test_a_mask_that_follows_an_input_is_none_of_windows():
    """What is repeated for every inference is constant, but what is added to it is not."""

    def attend(x, c):
        query = x.reshape(-1, TOKENS, SIZE)
        mask = c.repeat(x.shape[0], 1, 1) + query @ query.mT
        y = nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)
        return y.reshape(x.shape)

    made = Apply(attend, torch.randn(WINDOWS, TOKENS, TOKENS))
    mg = canonicalize(mase_hw.trace(made, torch.randn(2, WINDOWS, TOKENS, SIZE)))
    assert any(
        "its mask is computed" in str(problem) for problem in preflight(mase_hw.quantize(mg))
    )
