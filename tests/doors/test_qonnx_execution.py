"""Files of the package qonnx against its own execution."""

from __future__ import annotations

import pytest

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.errors import CaptureError
from mase_hw.exporters import compare

pytest.importorskip("qonnx")
execution = pytest.importorskip("tests.doors.qonnx_execution")


@pytest.mark.full
@pytest.mark.parametrize("path", execution.files(), ids=execution.label)
def test_reals_are_those_of_qonnx(path):
    if "floatquant" in str(path):
        with pytest.raises(CaptureError, match="another scale has no hardware"):
            mase_hw.trace(path)
        return
    graph = mase_hw.trace(path)
    inputs = execution.inputs_of(path, graph.example_inputs)
    tensors, (name,) = execution.executed(path, inputs)
    found, wanted = graph(*inputs), tensors[name]
    # Codes of the quantised ones may differ beside a tie, as floats add in another order.
    off = (found - wanted).abs() > 1e-4 * wanted.abs().max()
    assert float(off.double().mean()) <= 1e-4


@pytest.mark.full
def test_codes_of_layers_are_those_of_qonnx():
    (path,) = [
        path for path in execution.files() if execution.label(path) == "subpixel/quant_model"
    ]
    graph = mase_hw.trace(path)
    low = lowered(quantize(graph))
    inputs = execution.held_inputs(low, graph.example_inputs)
    layers = compare(execution.layers(path, low), low, inputs).layers
    assert len(layers) >= 4
    assert sum(layer.differing for layer in layers) <= 1e-4 * sum(a.elements for a in layers)
    assert max(layer.largest for layer in layers) <= 1
