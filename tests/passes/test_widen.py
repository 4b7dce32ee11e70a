"""Intermediates that no configuration names keep the results of what is computed of them."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import mase_hw
from mase_hw.emit.preflight import preflight
from mase_hw.formats import Format
from mase_hw.graph.nodes import common
from mase_hw.ops import Apply
from mase_hw.passes.formats.expected_agreement import model_agreement

ROWS, SIZE = 128, 16
WIDE = {"name": "fixed", "data_in_width": 16, "weight_width": 16, "bias_width": 16}


def rows(seed: int) -> Tensor:
    """Return rows whose sizes spread over three decades."""
    generator = torch.Generator().manual_seed(seed)
    sizes = 10 ** (3 * torch.rand(ROWS, 1, generator=generator) - 2)
    return torch.randn(ROWS, SIZE, generator=generator) * sizes


def by_variance(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt((centred**2).mean(-1, keepdim=True) + 1e-5)


def pair() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(64, 8, generator=generator) * 100, torch.randn(64, 8, generator=generator)


LARGE, SMALL = pair()
# A function, its operands, and the decibels that its result keeps.
CASES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...], float]] = {
    "normalize": (lambda x: F.normalize(x, dim=-1), (rows(0),), 38.0),
    "deviation": (
        lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True), (rows(0),), 38.0
    ),
    "variance": (by_variance, (rows(0),), 38.0),
    "length": (lambda x: x / x.norm(dim=-1, keepdim=True), (rows(0),), 38.0),
    "cosine": (lambda a, b: F.cosine_similarity(a, b, dim=-1), (rows(0), rows(1)), 35.0),
    "large quotients": (torch.atan2, (LARGE, SMALL), 40.0),
    "small quotients": (torch.atan2, (SMALL, LARGE), 40.0),
}  # fmt: skip
NORMALIZE, LENGTH = CASES["normalize"][0], CASES["length"][0]


def agreement(mg: mase_hw.MaseGraph) -> float:
    found = model_agreement(mg)
    assert found is not None
    (item,) = found.outputs.values()
    assert item.tensor_db is not None
    return item.tensor_db


def ports(mg: mase_hw.MaseGraph) -> list[Format]:
    return [common(node).results["data_out_0"].quantized for node in mg.inputs]


def quantized(function: Callable[..., Tensor], *inputs: Tensor, **fields: int) -> mase_hw.MaseGraph:
    config = {"default": {"config": {**WIDE, **fields}}}
    return mase_hw.quantize(mase_hw.trace(Apply(function), inputs), config)


@pytest.mark.first("normalize", "cosine", "large", "small")
@pytest.mark.parametrize("name", CASES)
def test_results_keep_what_their_operands_have(name: str) -> None:
    function, operands, decibels = CASES[name]
    mg = quantized(function, *operands)
    assert agreement(mg) >= decibels
    assert preflight(mg) == []


PAIRS: dict[str, Callable[..., Tensor]] = {
    "logarithm": lambda x, y: torch.log(x.abs() / (y.abs() + 1e-2) + 1e-3),
    "root": lambda x, y: x / torch.sqrt(x * x + y * y),
    "hypotenuse": lambda x, y: x / torch.hypot(x, y),
    "power": lambda x, y: torch.log(x * x + y * y),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_many_octaves_keep_what_their_operands_have(name: str) -> None:
    x, y = rows(0), rows(1)
    mg = quantized(PAIRS[name], x, y)
    rounded = (item.round_values(value) for item, value in zip(ports(mg), (x, y), strict=True))
    exact = PAIRS[name](x, y)
    alone = 20 * torch.log10(exact.norm() / (exact - PAIRS[name](*rounded)).norm())
    assert agreement(mg) >= float(alone) - 2.0
    assert {item.bits_per_element for item in ports(mg)} == {16}
    assert preflight(mg) == []


def test_what_a_configuration_names_stays_as_it_says() -> None:
    mg = mase_hw.trace(Apply(LENGTH), (rows(0),))
    config = {"by": "regex_name", ".*": {"config": WIDE}}
    fixed = mase_hw.quantize(mg, config)
    assert agreement(fixed) < 20.0
    widths = {
        spec.quantized.bits_per_element
        for node in fixed.nodes
        if node.op == "call_function"
        for spec in fixed.call(node).operands.values()
    }
    assert max(widths) == 16


def test_inputs_stay_as_wide_as_they_are() -> None:
    mg = quantized(NORMALIZE, rows(0))
    (entry,) = mg.inputs
    (spec,) = (mg.call(user).operands["data_in_0"] for user in list(entry.users)[:1])
    assert spec.quantized.bits_per_element == 16


def test_a_design_with_wider_intermediates_is_exact(tmp_path: object) -> None:
    mg = quantized(NORMALIZE, rows(0)[:, :4])
    project = mase_hw.emit_verilog(mg, output=f"{tmp_path}/design")
    report = mase_hw.simulate(project, rows(5)[:40, :4], stall=0.2)
    assert report.bit_exact, report.first_mismatch
