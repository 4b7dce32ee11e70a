"""Logarithms of softmax and of sums of exponentials: how far they are off, and their memories."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.preflight import preflight
from mase_hw.graph.reference import IntegerReference, spec


def captured(function, rows, width=8):
    class Model(nn.Module):
        def forward(self, x):
            return function(x)

    entry = {"name": "fixed", "data_in_width": width}
    return mase_hw.quantize(mase_hw.trace(Model(), rows), {"default": {"config": entry}})


def worst_error(mg, function, rows):
    """Return the largest error of the integer reference, in steps of the result."""
    operand, result = (spec(node).quantized for node in (mg.inputs[0], mg.outputs[0]))
    codes = operand.encode(rows)[:, None]
    found = result.decode(IntegerReference(mg)([codes])[mg.outputs[0].name])
    exact = function(operand.decode(codes).double())[:, 0]
    return float((found.reshape(exact.shape) - exact).abs().max()) * 2.0**result.frac_width


def rows_of(size):
    generator = torch.Generator().manual_seed(size)
    rows = torch.randn(400, size, generator=generator) * 3
    equal = torch.randn(50, 1, generator=generator).expand(-1, size)
    return torch.cat([rows, rows / 8, equal]).clamp(-8, 7.9)


@pytest.mark.parametrize("width", [8, 12])
@pytest.mark.parametrize("size", [2, 10, 200])
@pytest.mark.parametrize("function", [torch.log_softmax, torch.logsumexp])
def test_results_are_near_those_of_float64(function, size, width):
    def over_rows(x):
        return function(x, -1)

    rows = rows_of(size)
    mg = captured(over_rows, rows, width)
    assert preflight(mg) == []
    # The difference, the logarithm and what comes of both are rounded, to half a step each.
    assert worst_error(mg, over_rows, rows) <= 1.5


def test_rows_along_the_batch_are_refused():
    (problem, *_) = preflight(captured(lambda x: x.log_softmax(0), torch.randn(4, 3)))
    assert "dimension 0, the batch" in problem.reason
