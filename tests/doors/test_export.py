"""Our own graphs as ONNX: read back they are the same, and ONNX Runtime agrees."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.exporters import compare, export_onnx
from mase_hw.graph.reference import IntegerReference, spec
from tests.doors.files import residual


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1, groups=2)
        self.layer = nn.Linear(16, 5)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = nn.functional.max_pool2d(x + self.second(x), 2)
        return self.layer(x.flatten(1))


class Joined(nn.Module):
    """Bounds, a concatenation, layers of rows."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(3, 4, 3, padding=1), nn.Conv1d(3, 2, 1)
        self.layer, self.last = nn.Linear(5, 4), nn.Linear(24, 3)

    def forward(self, x):
        x = torch.cat([self.first(x).clamp(-0.5, 0.75), nn.functional.relu6(self.second(x))], 1)
        return self.last(nn.functional.hardtanh(self.layer(x)).flatten(1))


WIDTHS = {
    "by": "type",
    "default": {
        "config": {"name": "fixed", "data_in_width": 6, "weight_width": 5, "bias_width": 9}
    },
}
BY_CHANNEL = {
    "by": "type", "default": {"config": {"name": "fixed", "data_in_width": 6}},
    "linear": {"config": {
        "name": "scaled_integer", "data_in_width": 6, "data_in_symmetric": False, "weight_width": 4,
        "weight_channel_axis": 0, "bias_name": "fixed", "bias_width": 12,
    }},
}  # fmt: skip


# Multipliers of scales are as wide as they need to be for a file's, not for our own: next to ties
# codes are others.
@pytest.mark.parametrize(("config", "most"), [(WIDTHS, 0.0), (BY_CHANNEL, 0.01)])
def test_qonnx_runs_a_file_and_a_file_read_back_is_the_same(config, most, tmp_path):
    pytest.importorskip("qonnx")
    from tests.doors.qonnx_execution import executed

    torch.manual_seed(0)
    x = torch.randn(64, 3, 5)
    graph = quantize(mase_hw.trace(Joined().eval(), x), config)
    path = export_onnx(graph, tmp_path / "m.onnx", dialect="qonnx")
    wanted = codes(graph, x)

    def apart(values):
        off = (values.reshape(wanted.shape).double() - wanted).abs() > 1e-4 * wanted.abs().max()
        return float(off.double().mean())

    assert apart(codes(quantize(mase_hw.trace(path)), x)) <= most
    with redirect_stdout(StringIO()):
        tensors, (name,) = executed(path, [x])
    # And there sums of single precision are off.
    assert apart(tensors[name]) <= max(most, 0.001)


def test_a_node_that_is_not_exported_is_named(tmp_path):
    graph = quantize(mase_hw.trace(nn.Sequential(nn.Linear(3, 2), nn.GELU()), torch.randn(9, 3)))
    with pytest.raises(UnsupportedError, match=r"gelu_1 .* is gelu, which is not exported"):
        export_onnx(graph, tmp_path / "m.onnx")


def graphs():
    torch.manual_seed(0)
    x = torch.randn(40, 3, 4, 4)
    scaled = {
        "name": "scaled_integer", "data_in_width": 8, "data_in_symmetric": False,
        "weight_width": 8, "weight_channel_axis": 0, "bias_name": "fixed", "bias_width": 16,
    }  # fmt: skip
    model = Network().eval()
    fixed = quantize(mase_hw.trace(model, x), None)
    layers = {"by": "type", "default": {"config": {"name": "fixed", "data_in_width": 8}},
              "linear": {"config": scaled}}  # fmt: skip
    return {"fixed": fixed, "scaled": quantize(mase_hw.trace(model, x), layers)}, x


def codes(mg, x):
    low = lowered(mg)
    reference = IntegerReference(low)
    (entry,), (output,) = reference.inputs, reference.outputs
    return spec(output).quantized.decode(
        reference([spec(entry).quantized.encode(x)])[output.name].reshape(len(x), -1)
    )


@pytest.mark.parametrize("dialect", ["qdq", "qonnx"])
def test_a_file_read_back_gives_the_same_values(dialect, tmp_path):
    found, x = graphs()
    path = export_onnx(found["fixed"], tmp_path / "m.onnx", dialect=dialect)
    again = quantize(mase_hw.trace(path))
    assert torch.equal(codes(again, x), codes(found["fixed"], x))


def test_onnx_runtime_gives_the_same_values(tmp_path):
    found, x = graphs()
    path = export_onnx(found["fixed"], tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(path))
    (name,) = [item.name for item in session.get_inputs()]
    expected = session.run(None, {name: x.numpy()})[0]
    step = 2.0 ** -spec(found["fixed"].outputs[0]).quantized.frac_width
    off = np.abs(codes(found["fixed"], x).numpy() - expected) / step
    assert off.max() <= 1
    assert (off > 0).mean() <= 0.001


def test_a_width_that_onnx_does_not_have_is_refused(tmp_path):
    graph = quantize(mase_hw.trace(nn.Linear(3, 2), torch.randn(9, 3)), {
        "default": {"config": {"name": "fixed", "data_in_width": 5}},
    })  # fmt: skip
    with pytest.raises(UnsupportedError, match="dialect='qonnx'"):
        export_onnx(graph, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
    assert export_onnx(graph, tmp_path / "m.onnx", dialect="qonnx").is_file()
    with pytest.raises(ConfigError, match="no number formats"):
        export_onnx(mase_hw.trace(nn.Linear(3, 2), torch.randn(9, 3)), tmp_path / "n.onnx")


def test_layers_are_compared_with_onnx_runtime(tmp_path):
    path = residual(tmp_path / "m.onnx", 3)
    graph = quantize(mase_hw.trace(path))
    x = torch.randn(60, 3, 6, 6, generator=torch.Generator().manual_seed(0)) * 2
    found = compare(path, graph, x)
    assert len(found.layers) >= 5
    assert found.worst <= 0.002
    assert max(item.largest for item in found.layers) <= 1
