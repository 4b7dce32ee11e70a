"""Integers with a real scale: multipliers, their errors, and layers bit by bit."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import mase_hw
from mase_hw.arithmetic.requantize import dyadic
from mase_hw.emit.flow import quantize
from mase_hw.errors import UnsupportedError
from mase_hw.formats import make_format
from mase_hw.graph import trace
from mase_hw.graph.reference import IntegerReference, spec

SCALED = {
    "name": "scaled_integer", "data_in_width": 8, "weight_width": 8, "weight_channel_axis": 0,
    "bias_width": 16,
}  # fmt: skip
LAYERS = {
    "int8 per channel": SCALED,
    "uint8 asymmetric": {
        **SCALED, "data_in_signed": False, "data_in_symmetric": False, "weight_symmetric": True,
        "bias_name": "fixed",
    },
    "int4 asymmetric": {
        **SCALED, "data_in_width": 4, "data_in_symmetric": False, "weight_width": 4,
        "weight_symmetric": False,
    },
}  # fmt: skip


@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=10**6).filter(lambda ratio: ratio > 0),
    st.integers(2, 24),
)
def test_a_multiplier_is_as_near_as_its_bits_allow(ratio, bits):
    factor, shift = dyadic(ratio, bits)
    assert factor.bit_length() == bits
    assert abs(factor * Fraction(2) ** -shift / ratio - 1) <= Fraction(1, 1 << bits)


@pytest.mark.parametrize("signed", [True, False])
def test_steps_are_rounded_to_even_around_zero(signed):
    number = make_format(
        {
            "name": "scaled_integer", "width": 4, "signed": signed, "symmetric": False,
            "zero_point": 3, "scale": 0.1,
        }
    )  # fmt: skip
    integers = torch.arange(-200, 201)
    found = number.unscaled().from_scaled(integers, torch.full_like(integers, -3)).tolist()
    low, high = number.code_range
    assert found == [min(max(round(Fraction(n, 8)) + 3, low), high) for n in integers.tolist()]


def layers():
    """Return a design of two convolutions and a linear layer for each configuration."""
    torch.manual_seed(0)

    class SideBySide(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(
                nn.Sequential(
                    nn.Conv2d(3, 4, 3, padding=1, stride=2),
                    nn.Conv2d(4, 4, (2, 1), groups=4),
                    nn.Flatten(),
                    nn.Linear(16, 5),
                )
                for _ in LAYERS
            )

        def forward(self, *inputs):
            return tuple(part(value) for part, value in zip(self.parts, inputs, strict=True))

    graph = trace(SideBySide().eval(), tuple(torch.randn(8, 3, 5, 4) for _ in LAYERS))
    nodes = [node.name for node in graph.nodes if node.op == "call_function"]
    config = {"by": "name"}
    for number, entry in enumerate(LAYERS.values()):
        first, second, _, last = nodes[4 * number : 4 * number + 4]
        config |= {name: {"config": entry} for name in (first, second, last)}
    return quantize(graph, config)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_half_a_step_off_the_real_quotient(name):
    """Beyond rounding, by 2**-10 steps and half a unit of the bias in steps."""
    torch.manual_seed(0)
    config = {"by": "type", "linear": {"config": LAYERS[name]}}
    mg = quantize(trace(nn.Linear(24, 5).eval(), (torch.randn(64, 24),)), config)
    (node,) = (node for node in mg.nodes if node.op == "call_function")
    call, number = mg.call(node), spec(node).quantized
    data = call.operands["data_in_0"].quantized
    codes = data.encode(torch.randn(500, 24))
    weight, bias = (
        call.operands[name].quantized.decode(call.constant_codes(name))
        for name in ("weight", "bias")
    )
    exact = (data.decode(codes) @ weight.t() + bias) / number.scale
    found = IntegerReference(mg)([codes])[node.name].reshape(exact.shape)
    low, high = number.code_range
    inside = (found > low) & (found < high)
    unit = data.scale * torch.tensor(call.operands["weight"].quantized.scales) / number.scale
    bound = (0.5 + 2.0**-10 + unit / 2).expand(exact.shape)
    missed = (found - number.zero_points[0] - exact).abs()
    assert inside.double().mean() > 0.5
    assert bool((missed[inside] <= bound[inside]).all())


def test_layers_in_hardware(tmp_path):
    project = mase_hw.emit_verilog(layers(), output=tmp_path / "d", parallelism=2)
    for stall in (0.0, 0.35):
        report = mase_hw.simulate(project, samples=30, stall=stall, seed=3)
        assert report.bit_exact, report.first_mismatch or report.violations
        if not stall:
            assert report.interval_cycles == report.predicted_interval_cycles
            assert report.latency_cycles == report.predicted_latency_cycles


@pytest.mark.first(1)
@pytest.mark.parametrize("scales", [(0.01, 0.01), (1.0, 1.0), (0.03, 0.01)])
def test_zero_points_that_differ_between_layers(tmp_path, scales):
    """Also where the scales agree, so that the cast has no multiplier."""
    torch.manual_seed(0)
    first, second = (
        {f"{stream}_{field}": value for field, value in fields.items()}
        for stream, fields in (
            (
                "data_out",
                {"width": 8, "name": "scaled_integer", "scale": scales[0], "zero_point": 3},
            ),
            ("data_in", {"width": 6, "scale": scales[1], "zero_point": -2}),
        )
    )
    config = {
        "by": "name",
        "linear_0": {"config": {**SCALED, **first, "data_out_symmetric": False}},
        "linear_1": {"config": {**SCALED, **second, "data_in_symmetric": False}},
    }
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)).eval()
    project = mase_hw.emit_verilog(
        model, (torch.randn(8, 8),), output=tmp_path / "d", config=config
    )
    report = mase_hw.simulate(project, samples=60, stall=0.3)
    assert report.bit_exact, report.first_mismatch or report.violations


def test_a_stream_with_a_scale_for_each_channel_is_refused(tmp_path):
    entry = {**SCALED, "data_in_channel_axis": 1, "data_in_scale": [0.1] * 4}
    config = {"by": "type", "linear": {"config": entry}}
    with pytest.raises(UnsupportedError, match="only a weight may have a scale for each channel"):
        mase_hw.emit_verilog(
            nn.Linear(4, 3), (torch.randn(2, 4),), output=tmp_path / "d", config=config
        )


@pytest.mark.first(1)
@pytest.mark.parametrize(("weight_scale", "bits"), [(0.03125, 0), (2.0**-9, 0), (0.03, 18)])
def test_powers_of_two_are_shifted_and_not_multiplied(tmp_path, weight_scale, bits):
    torch.manual_seed(0)
    entry = {
        "name": "scaled_integer", "data_in_width": 8, "data_in_scale": 0.0625, "weight_width": 8,
        "weight_scale": weight_scale,
    }  # fmt: skip
    config = {"by": "type", "default": {"config": entry}}
    project = mase_hw.emit_verilog(
        nn.Linear(8, 4), torch.randn(16, 8), output=tmp_path / "net", config=config, parallelism=2
    )
    assert project.mg.netlist(project.mg.node("linear")).main.multiplier_width == bits
    assert mase_hw.simulate(project.folder, samples=16, stall=0.3).bit_exact
