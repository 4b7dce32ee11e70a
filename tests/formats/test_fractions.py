"""The fraction of constants: of least error, or long enough for the largest."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError
from mase_hw.formats.fixed import LONGER, Fixed
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.precision.space import configuration, operands_of


def outlying() -> nn.Module:
    """Return a layer one of whose weights is far larger than the others."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 40)).eval()
    with torch.no_grad():
        model[0].weight[0, 0] = 1.5
    return model


def weight_format(**entry: object) -> Fixed:
    config = {"name": "fixed", "data_in_width": 8, "weight_width": 4, "bias_width": 8, **entry}
    mg = mase_hw.quantize(
        mase_hw.trace(outlying(), torch.randn(50, 40)), {"default": {"config": config}}
    )
    (node,) = (node for node in mg.nodes if node.op == "call_function")
    found = mg.call(node).operands["weight"].format
    assert isinstance(found, Fixed)
    return found


@pytest.mark.parametrize("power", [1.0, 3.0])
@pytest.mark.parametrize("width", range(2, 13))
def test_a_fraction_of_constants_is_that_of_least_error(width, power):
    generator = torch.Generator().manual_seed(width)
    values = torch.randn(400, generator=generator, dtype=torch.float64)
    values = values.sign() * values.abs() ** power

    def error(item: Fixed) -> float:
        return float((item.round_values(values) - values).square().sum())

    holding = Fixed.fit_values(values, width=width)
    found = holding.of_least_error(values)
    every = [Fixed(width, holding.frac_width + more) for more in (0, *LONGER)]
    assert error(found) <= 2.0 * min(map(error, every))
    assert found == holding or error(found) < error(holding) / 2
    exact = Fixed(width, 3).decode(torch.arange(-2, 2))
    fitted = Fixed.fit_values(exact, width=width)
    assert fitted.of_least_error(exact) == fitted


def test_constants_are_rounded_best_where_that_is_asked():
    holding, best = weight_format(), weight_format(weight_least_error=True)
    assert holding == Fixed.fit(-1.5, 1.5, width=4)
    assert best.frac_width > holding.frac_width
    assert weight_format(weight_frac_width=1, weight_least_error=True).frac_width == 1
    with pytest.raises(ConfigError, match="unknown key 'weight_least_eror'"):
        weight_format(weight_least_eror=True)


def test_constants_are_rounded_best_where_formats_are_found():
    graph = mase_hw.trace(outlying(), torch.randn(50, 40))
    mg, _ = add_software_metadata_analysis_pass(canonicalize(graph), {})
    operands = operands_of(mg, ["fixed"])
    weight = next(place for place, item in enumerate(operands) if item.name == "weight")
    option = operands[weight].options[0]
    assert option.number_format == weight_format(weight_least_error=True)
    config = configuration(mg, operands, [0] * len(operands))
    assert config["linear_0"]["config"]["weight_least_error"] is True  # type: ignore[index]
    again = mase_hw.quantize(graph, config)
    assert again.call(again.node("linear_0")).operands["weight"].format == option.number_format
