"""What stands behind a layer is folded into its weights only where rounding them allows it."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError
from mase_hw.formats import formats, make_format
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.search.space import Space

# Fields of a weight that a configuration must give, by format.
GIVEN = {"binary_residual": {"levels": 2}}


def perceptron(factors):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 6, bias=False), nn.BatchNorm1d(6), nn.Linear(6, 3))
    with torch.no_grad():
        model[1].weight.copy_(factors)
        model[1].running_mean.normal_()
        model[1].running_var.uniform_(0.5, 2.0)
        model[1].bias.normal_()
    return model.eval()


def configuration(name, **fields):
    given = {f"weight_{key}": value for key, value in {**GIVEN.get(name, {}), **fields}.items()}
    return {
        "by": "name",
        "default": {"config": {"name": "none"}},
        "linear_0": {"config": {"name": "none", "weight_name": name, **given}},
    }


def operators(mg):
    return [
        node.name for node in mg.nodes if node.op == "call_function" and "cast" not in node.name
    ]


@pytest.mark.parametrize("name", sorted(formats()))
def test_a_fold_leaves_the_quantized_function_as_it_is(name):
    """Factors are negative, zero and apart by octaves: signs and exponents of weights change."""
    model = perceptron(torch.tensor([-3.0, 0.2, 1.0, 0.0, 5.0, -0.01]))
    x = torch.randn(64, 8)
    graph = mase_hw.trace(model, x)
    found = mase_hw.quantize(graph, configuration(name))
    weight = found.call(found.node("linear_0")).operands["weight"].format
    folded = "batchnorm1d_1" not in operators(found)
    assert folded == weight.takes_factors(weight.to_dict())
    if folded:
        # Rounding takes factors: no more is lost than where the weights are rounded alone.
        rounded = model[1](x @ weight.round_values(model[0].weight).t())
        expected, alone = model(x), model[2](rounded)
        error = (found(x) - expected).detach().abs().mean()
        assert error <= 2 * (alone - expected).detach().abs().mean() + 1e-5
        return
    rounded = make_format(weight.to_dict()).round_values(model[0].weight.detach())
    expected = model[2](model[1](x @ rounded.t()))
    torch.testing.assert_close(found(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["fixed", "minifloat_ieee", "mxint", "block_fp", "block_minifloat"]
)
def test_a_power_of_two_folds_without_a_trace(name):
    model = perceptron(torch.ones(6))
    with torch.no_grad():
        model[1].running_var.fill_(1.0 / 16 - model[1].eps)
        model[1].running_mean.zero_()
        model[1].bias.zero_()
    x = torch.randn(16, 8)
    found = mase_hw.quantize(mase_hw.trace(model, x), configuration(name, width=8))
    assert operators(found) == ["linear_0", "linear_2"]
    weight = found.call(found.node("linear_0")).operands["weight"].format
    alone, _ = quantize_transform_pass(
        canonicalize(mase_hw.trace(model[0], x)),
        {"default": configuration(name, width=8)["linear_0"]},
    )
    own = alone.call(alone.node("linear")).operands["weight"].format
    rounded = own.round_values(model[0].weight.detach()) * 4
    torch.testing.assert_close(
        weight.round_values(model[0].weight.detach() * 4), rounded, rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("width", [2, 3])
def test_two_bits_are_as_few_values_as_signs(width):
    graph = mase_hw.trace(perceptron(torch.ones(6)), torch.randn(16, 8))
    found = mase_hw.quantize(graph, configuration("fixed", width=width))
    assert ("batchnorm1d_1" in operators(found)) == (width == 2)


def test_formats_of_few_values_after_a_fold_are_refused():
    mg = canonicalize(mase_hw.trace(perceptron(torch.ones(6)), torch.randn(16, 8)))
    assert operators(mg) == ["linear_0", "linear_2"]
    with pytest.raises(ConfigError, match=r"weights of linear_0 .*hold the factors"):
        mase_hw.quantize(mg, configuration("binary"))
    assert mase_hw.quantize(mg, configuration("fixed")).is_quantized


def test_a_space_with_one_such_format_keeps_the_node():
    graph = mase_hw.trace(perceptron(torch.ones(6)), torch.randn(16, 8))
    entry = {"name": "fixed", "weight_name": ["fixed", "ternary"]}
    tables = {"quantize": {"by": "type", "linear": {"config": entry}}}
    mg = canonicalize(graph, Space.formats(tables))
    assert "batchnorm1d_1" in operators(mg)
    entry["weight_name"] = ["fixed", "mxint"]
    assert "batchnorm1d_1" not in operators(canonicalize(graph, Space.formats(tables)))
