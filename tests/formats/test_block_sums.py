"""Sums of blocks lose nothing where their scales have few exponents."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import mase_hw
from mase_hw.emit.flow import quantize
from mase_hw.emit.preflight import notes, preflight
from mase_hw.errors import ConfigError
from mase_hw.graph import MaseGraph, trace
from mase_hw.graph.reference import IntegerReference
from mase_hw.ops.products._block_product import BlockProduct
from mase_hw.ops.products._products import product_of
from tests.engines import exact

TERMS, RESULTS = 12, 3


def layer(seed: int, outliers: bool, bias: bool, **entry):
    """Return a quantized linear layer whose weights, with outliers, cancel."""
    generator = torch.Generator().manual_seed(seed)
    linear = nn.Linear(TERMS, RESULTS, bias=bias)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(RESULTS, TERMS, generator=generator))
        if outliers:
            linear.weight[:, 0], linear.weight[:, -1] = 2.0**6, -(2.0**6)
        if bias:
            linear.bias.copy_(torch.randn(RESULTS, generator=generator))
    blocks = {f"{name}_block_size": 4 for name in ("data_in", "weight", "bias")}
    wide = {"data_out_name": "fixed", "data_out_width": 24, "data_out_frac_width": 14}
    config = {"default": {"config": {"name": "mxint", **blocks, **wide, **entry}}}
    return quantize(trace(linear.eval(), torch.randn(8, TERMS, generator=generator)), config)


def product(mg) -> BlockProduct:
    call = mg.call(mg.node("linear"))
    found = product_of(call, lambda weight: weight, TERMS, -1)
    assert isinstance(found, BlockProduct)
    return found


def rational(values) -> list:
    return [[Fraction(float(item)) for item in row] for row in values]


def exact_codes(mg, codes) -> list[list[int]]:
    """Round the rational sums once."""
    call = mg.call(mg.node("linear"))
    operands = call.operands
    data = rational(operands["data_in_0"].quantized.decode(codes))
    weight = rational(operands["weight"].quantized.decode(call.constant_codes("weight")))
    start = [Fraction(0)] * RESULTS
    if "bias" in operands:
        decoded = operands["bias"].quantized.decode(call.constant_codes("bias"))
        start = [Fraction(float(item)) for item in decoded]
    scale = Fraction(2) ** call.result.quantized.frac_width
    top = 2 ** (call.result.quantized.width - 1)
    return [
        [
            max(
                -top,
                min(top - 1, round(scale * (first + sum(map(lambda x, w: x * w, row, column))))),
            )
            for first, column in zip(start, weight, strict=True)
        ]
        for row in data
    ]


@pytest.mark.full
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.booleans(), st.booleans(), st.integers(4, 8))
def test_narrow_scales_are_summed_exactly(seed, outliers, bias, width):
    mg = layer(
        seed, outliers, bias, data_in_width=width, weight_width=width,
        data_in_exponent_width=3, weight_exponent_width=4, bias_exponent_width=4,
    )  # fmt: skip
    assert product(mg).is_exact
    number = mg.call(mg.node("linear")).operands["data_in_0"].quantized
    codes = number.random_codes((16, TERMS), torch.Generator().manual_seed(seed))
    found = IntegerReference(mg)([codes])["linear"].reshape(-1, RESULTS)
    assert found.tolist() == exact_codes(mg, codes)


def test_wide_scales_keep_guard_bits():
    found = product(layer(0, True, False))
    assert not found.is_exact
    assert found.guard_bits == 8


@pytest.mark.first(1)
@pytest.mark.parametrize("bias", [False, True])
def test_exact_sums_are_emitted(bias, tmp_path):
    mg = layer(1, True, bias, data_in_exponent_width=3, weight_exponent_width=4)
    project = mase_hw.emit_verilog(mg, output=tmp_path / "project", parallelism=2)
    instance = next(item for item in project.design.instances if item.name == "linear_inst")
    assert instance.cell.guard_bits == product(mg).guard_bits > 8
    exact(project, samples=40, stall=0.2)


@pytest.mark.first(1)
@pytest.mark.parametrize("guard", [0, 3, 12, 30])
def test_guard_bits_that_are_asked_for(guard, tmp_path):
    mg = layer(2, True, True, data_in_width=6, weight_width=6, sum_guard_bits=guard)
    assert product(mg).guard_bits == guard
    project = mase_hw.emit_verilog(mg, output=tmp_path / "project", parallelism=2)
    instance = next(item for item in project.design.instances if item.name == "linear_inst")
    assert instance.cell.guard_bits == guard
    exact(project, samples=40, stall=0.2)
    again = MaseGraph.load(mg.save(tmp_path / "graph.mase"))
    assert product(again).guard_bits == guard


def test_more_guard_bits_lose_less():
    codes, lost = None, []
    for guard in (0, 8, 24):
        mg = layer(3, True, False, data_in_width=6, weight_width=6, sum_guard_bits=guard)
        number = mg.call(mg.node("linear")).operands["data_in_0"].quantized
        if codes is None:
            codes = number.random_codes((200, TERMS), torch.Generator().manual_seed(1))
        found = IntegerReference(mg)([codes])["linear"].reshape(-1, RESULTS)
        lost.append(int((found != torch.tensor(exact_codes(mg, codes))).sum()))
    assert lost[0] > lost[1] > lost[2], lost


@pytest.mark.parametrize("value", [-1, 49, True, "8"])
def test_guard_bits_that_are_none(value):
    with pytest.raises(ConfigError, match=r"sum_guard_bits is .*; allowed: 0 to 48"):
        layer(0, False, False, sum_guard_bits=value)


def test_guard_bits_beyond_the_accumulator_are_refused():
    reasons = [item.reason for item in preflight(layer(0, True, True, sum_guard_bits=48))]
    assert reasons == ["sums may exceed 62 bits; use fewer than 48 sum_guard_bits"]


def test_guard_bits_of_exact_sums_are_refused():
    config = {"default": {"config": {"name": "fixed", "sum_guard_bits": 4}}}
    mg = quantize(trace(nn.Linear(4, 2), torch.randn(8, 4)), config)
    (problem,) = preflight(mg)
    assert "sum_guard_bits is for sums of blocks" in problem.reason


def test_preflight_says_what_exact_sums_take():
    (note,) = notes(layer(1, True, False, data_in_exponent_width=3, weight_exponent_width=4))
    kept = product(layer(1, True, False, data_in_exponent_width=3, weight_exponent_width=4))
    assert note.node == "linear"
    assert f"{kept.guard_bits} of them guard bits, lose nothing" in note.text
    (note,) = notes(layer(0, True, False))
    assert "keep 8 guard bits" in note.text
    assert "sum_guard_bits" in note.text
    assert notes(quantize(trace(nn.Linear(4, 2), torch.randn(8, 4)))) == []
