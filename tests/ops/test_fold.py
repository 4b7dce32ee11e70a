"""Columns that are put back in their windows, from capture to simulation."""

from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.graph import trace
from mase_hw.ops import operators


@pytest.mark.parametrize("number", [0, 1])
def test_as_torch(number: int) -> None:
    """Taken apart, it is torch's own operator: overlaps are added, what lies between is zero."""
    module, inputs = operators()["fold"].examples()[number]
    assert isinstance(module, nn.Fold)
    graph = canonicalize(trace(module, inputs))
    assert torch.allclose(graph.model(*inputs), module(*inputs), atol=1e-6)
    assert all(str(node.target) != "aten.col2im.default" for node in graph.nodes)


def test_back_from_windows(tmp_path: Path) -> None:
    """Windows of an image and back: every pixel as often as windows show it, bit-exact."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Unfold(2, stride=1), nn.Fold((3, 4), 2))
    graph = mase_hw.quantize(mase_hw.trace(model, torch.randn(4, 2, 3, 4)))
    project = mase_hw.emit_verilog(graph, output=tmp_path / "fold")
    report = mase_hw.simulate(project, samples=6, stall=0.3)
    assert report.bit_exact
    assert report.elements == 6 * 2 * 3 * 4
