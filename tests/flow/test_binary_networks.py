"""A binary network as its author writes it: signs, whole sums, and a normalisation behind them."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import quantize
from mase_hw.models import models


def network(hidden: int) -> nn.Module:
    torch.manual_seed(2)
    module = models()["mnist-sfc"].build(hidden=hidden)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d):
                # Signs of factors differ, and borders are not whole.
                part.weight.normal_()
                part.bias.normal_()
                part.running_mean.normal_(std=5.0)
                part.running_var.uniform_(20.0, 60.0)
    return module.eval()


def images(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 1, 28, 28), generator=generator) / 255


def test_classes_are_those_of_the_module():
    model, pixels = network(64), images(500)
    mg = mase_hw.trace(model, pixels[:32])
    quantized = quantize(mg, models()["mnist-sfc"].config)
    calls = [quantized.call(node) for node in quantized.nodes if node.op == "call_function"]
    layers = [call for call in calls if call.operator.name == "linear"]
    assert len(layers) == 4
    for call in layers:
        assert {call.operands[name].format.name for name in ("data_in_0", "weight")} == {"binary"}
    with torch.no_grad():
        found, expected = quantized(pixels), model(pixels)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert torch.equal(found.argmax(1), expected.argmax(1))
    assert len(expected.argmax(1).unique()) > 2


@pytest.mark.slow
def test_classes_of_the_hardware_are_those_of_the_module(tmp_path):
    model, pixels = network(16), images(40)
    quantized = quantize(mase_hw.trace(model, pixels[:32]), models()["mnist-sfc"].config)
    project = mase_hw.emit_verilog(quantized, output=tmp_path / "sfc", parallelism=8)
    report = mase_hw.simulate(project, pixels)
    assert report.bit_exact
    (scores,) = report.values.values()
    assert torch.equal(scores.argmax(1), model(pixels).argmax(1))
