"""The fraction of constants: of least error, or long enough for the largest."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.formats.fixed import LONGER, Fixed


def weight_format(**entry: object) -> Fixed:
    """Return the format of weights of 4 bits, one of which is far larger than the others."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 40)).eval()
    with torch.no_grad():
        model[0].weight[0, 0] = 1.5
    config = {"name": "fixed", "data_in_width": 8, "weight_width": 4, "bias_width": 8, **entry}
    mg = mase_hw.quantize(
        mase_hw.trace(model, torch.randn(50, 40)), {"default": {"config": config}}
    )
    (node,) = (node for node in mg.nodes if node.op == "call_function")
    found = mg.call(node).operands["weight"].format
    assert isinstance(found, Fixed)
    return found


@pytest.mark.parametrize("power", [1.0, 3.0])
@pytest.mark.parametrize("width", range(2, 13))
def test_a_fraction_of_constants_is_that_of_least_error(width: int, power: float) -> None:
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


def test_constants_are_rounded_best_where_that_is_asked() -> None:
    holding, best = weight_format(), weight_format(weight_least_error=True)
    assert holding == Fixed.fit(-1.5, 1.5, width=4)
    assert best.frac_width > holding.frac_width
    assert weight_format(weight_frac_width=1, weight_least_error=True).frac_width == 1
    with pytest.raises(ConfigError, match="unknown key 'weight_least_eror'"):
        weight_format(weight_least_eror=True)


def test_constants_are_rounded_best_where_formats_are_found() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 8)).eval()
    with torch.no_grad():
        model[0].weight[0, 0] = 1.5
    inputs = torch.randn(400, 40)
    inputs[:, 0] *= 1e-4
    graph = mase_hw.trace(model, inputs)
    found = mase_hw.fit_formats(graph, min_sqnr=12, formats=["fixed"], prepare=False)
    entry = found.config["linear_0"]["config"]  # type: ignore[index]
    assert entry["weight_least_error"] is True
    weight = found.graph.call(found.graph.node("linear_0")).operands["weight"].format
    assert isinstance(weight, Fixed)
    assert weight.frac_width > Fixed.fit_values(model[0].weight.detach(), width=weight.width).frac_width
    again = mase_hw.quantize(graph, found.config)
    assert again.call(again.node("linear_0")).operands["weight"].format == weight
