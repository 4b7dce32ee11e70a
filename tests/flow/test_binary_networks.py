"""Networks of few bits as their author writes them: rounded weights, and a normalisation behind."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.graph.nodes import common
from mase_hw.models import models
from tests.engines import as_predicted, exact

PERCEPTRONS = ("mnist-sfc", "mnist-sfc-w2a2")
IMAGES = (
    "fashion-cnv",
    "fashion-cnv-w2a2",
    pytest.param("fashion-mobilenet", marks=pytest.mark.full),
)


def network(name: str, size: int) -> nn.Module:
    torch.manual_seed(2)
    module = models()[name].build(size).train()
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
                # Signs of factors differ, borders are not whole, and statistics are those of data.
                part.weight.normal_()
                part.bias.normal_(std=0.5)
                part.momentum = 1.0
        module(images(64))
    return module.eval()


def images(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    # Some are dark and some are bright, in other places each.
    bright = torch.rand(count, 1, 4, 4, generator=generator).repeat_interleave(7, 2)
    noise = torch.rand(count, 1, 28, 28, generator=generator)
    pixels = (2 * noise * bright.repeat_interleave(7, 3)).clamp(0, 1)
    return (pixels * 255).round() / 255


@pytest.mark.parametrize("name", PERCEPTRONS)
def test_classes_are_those_of_the_module(name):
    model, pixels = network(name, 64), images(500)
    quantized = quantize(mase_hw.trace(model, pixels[:32]), models()[name].config)
    calls = [quantized.call(node) for node in quantized.nodes if node.op == "call_function"]
    layers = [call for call in calls if call.operator.name == "linear"]
    assert len(layers) == 4
    for call in layers:
        formats = {call.operands[operand].format for operand in ("data_in_0", "weight")}
        assert {item.bits_per_element for item in formats} == {1 if name == "mnist-sfc" else 2}
    with torch.no_grad():
        found, expected = quantized(pixels), model(pixels)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert torch.equal(found.argmax(1), expected.argmax(1))
    assert len(expected.argmax(1).unique()) > 1


@pytest.mark.first(1)
@pytest.mark.parametrize("name", IMAGES)
def test_classes_of_images_are_those_of_the_module(name):
    model, pixels = network(name, 4), images(24)
    quantized = quantize(mase_hw.trace(model, pixels[:8]), models()[name].config)
    with torch.no_grad():
        found, expected = quantized(pixels), model(pixels)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)
    assert len(expected.unique(dim=0)) > 12
    hardware = lowered(quantized)
    operators = [common(node).operator for node in hardware.nodes if node.op == "call_function"]
    # What is left of normalisations is the last one.
    assert operators.count("batch_norm") == 1
    layers = operators.count("conv2d") + operators.count("linear")
    assert operators.count("thresholds") == layers - 1
    assert not {"where", "greater_equal", "div"} & set(operators)
    # Those of the pixels.
    assert operators.count("round") == operators.count("mul") == 1


@pytest.mark.full
@pytest.mark.parametrize("name", [*PERCEPTRONS, *IMAGES])
def test_images_on_the_hardware(name, tmp_path):
    model, pixels = network(name, 16 if name in PERCEPTRONS else 2), images(3)
    quantized = quantize(mase_hw.trace(model, images(8)), models()[name].config)
    project = mase_hw.emit_verilog(quantized, output=tmp_path / "network", parallelism=2)
    report = as_predicted(project, pixels)
    exact(project, pixels, stall=0.3)
    (scores,) = report.values.values()
    with torch.no_grad():
        torch.testing.assert_close(scores.float(), model(pixels), rtol=0, atol=1e-3)
