"""Copies of a graph share memory until one of them is written, and never values."""

import torch
from torch import nn

from mase_hw.emit.flow import canonicalize
from mase_hw.graph import trace


def test_what_is_written_is_its_own() -> None:
    graph = trace(nn.Linear(4, 3), torch.randn(2, 4))
    copy = graph.copy()
    (weight, *_), (other, *_) = graph.parameters(), copy.parameters()
    before = weight.detach().clone()
    with torch.no_grad():
        other.add_(1.0)
    assert torch.equal(weight, before)
    assert torch.equal(other, before + 1)
    with torch.no_grad():
        weight.mul_(2.0)
    assert torch.equal(other, before + 1)


def test_constants_in_double_are_not_kept() -> None:
    graph = canonicalize(trace(nn.Linear(4, 3), torch.randn(2, 4)))
    (node,) = (item for item in graph.nodes if item.op == "call_function")
    constants = graph.call(node).constants
    assert set(constants) == {"weight", "bias"}
    assert "weight" in constants
    assert constants["weight"].dtype is torch.float64
    assert constants["weight"] is not constants["weight"]
