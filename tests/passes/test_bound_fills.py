"""Fills that only mean "never" cost the other values nothing."""

import math

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.ops import Apply
from mase_hw.passes.canonical.bound_fills import bound_fills_transform_pass
from tests.shared_formats import configuration, decibels

FILLS = (-1e4, -1e9, torch.finfo(torch.float32).min, -math.inf)
_THEN = {
    "softmax": lambda a, v: a.softmax(-1) @ v,
    "maximum": lambda a, v: a.max(-1).values,
    "log-softmax": lambda a, v: a.log_softmax(-1).exp() @ v,
    "sigmoid": lambda a, v: a.sigmoid() @ v,
    "tanh": lambda a, v: a.tanh() @ v,
    "logsumexp": lambda a, v: a.logsumexp(-1),
    "where, then softmax": lambda a, v: torch.where(a > 10, a * 0, a).softmax(-1) @ v,
}


class _Scores(nn.Module):
    def __init__(self, then, fill, adds=False):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.then, self.fill, self.adds = then, fill, adds
        self.register_buffer("seen", torch.tril(torch.ones(6, 6)))

    def forward(self, x, mask=None):
        scores = self.q(x) @ self.k(x).transpose(-1, -2) / 8**0.5
        seen = self.seen if mask is None else mask[:, None, :]
        if self.adds:
            scores = scores + torch.zeros_like(scores).masked_fill(seen == 0, self.fill)
        else:
            scores = scores.masked_fill(seen == 0, self.fill)
        return self.then(scores, self.v(x))


def _inputs(masked):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(16, 6, 8, generator=generator)
    mask = (torch.rand(16, 6, generator=generator) > 0.3).float()
    mask[:, 0] = 1
    return (x, mask) if masked else (x,)


@pytest.mark.first(3)
@pytest.mark.parametrize("masked", [False, True], ids=["constant", "input"])
@pytest.mark.parametrize("then", _THEN)
def test_masked_scores_keep_their_precision(then, masked):
    # Logarithms of probabilities reach down to the fill, which their exponentials do not.
    least = 66 if then == "log-softmax" else 70
    for fill, adds in zip(FILLS, (masked, True, not masked, False), strict=True):
        model, inputs = _Scores(_THEN[then], fill, adds).eval(), _inputs(masked)
        with torch.no_grad():
            exact = model(*inputs)
            found = mase_hw.quantize(mase_hw.trace(model, inputs), configuration(16))(*inputs)
        assert decibels(exact, found) >= least, (fill, adds)


def test_a_fill_that_counts_stays():
    model, inputs = _Scores(lambda a, v: a.mean(-1), -1e4).eval(), _inputs(False)
    with torch.no_grad():
        found = mase_hw.quantize(mase_hw.trace(model, inputs), configuration(16))(*inputs)
    assert decibels(model(*inputs), found) >= 60


def test_a_fill_that_something_is_compared_with_stays():
    def then(scores, values):
        best = scores.max(-1).values
        return torch.where(best > -5e3, best, 0.0)

    graph = mase_hw.trace(_Scores(then, -1e4).eval(), _inputs(False))
    _, info = bound_fills_transform_pass(graph, {})
    assert info["bounded"] == {}


def test_a_fill_that_does_not_occur_stays():
    model = Apply(lambda x: torch.where(x > 100, 1e4, x).max(-1).values)
    _, info = bound_fills_transform_pass(mase_hw.trace(model, torch.randn(8, 4)), {})
    assert info["bounded"] == {}


def test_the_graph_that_is_given_stays_and_computes_the_same():
    inputs = _inputs(True)
    graph = mase_hw.trace(_Scores(_THEN["maximum"], -1e9).eval(), inputs)
    text = str(graph)
    other, info = bound_fills_transform_pass(graph, {})
    assert info["bounded"] and str(graph) == text
    assert torch.equal(graph(*inputs), other(*inputs))
    assert torch.allclose(graph(*inputs), canonicalize(graph)(*inputs), atol=1e-6)
