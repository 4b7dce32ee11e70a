"""GPTQ: against a dense solution, on layers and networks, in every kind of format."""

import pytest
import torch
from torch import nn

from mase_hw.emit.flow import quantize
from mase_hw.errors import ConfigError, DataError
from mase_hw.formats import make_format
from mase_hw.graph import trace
from mase_hw.passes.gptq import gptq, gptq_transform_pass, squared_error

FORMATS = [
    {"name": "fixed", "width": 4, "frac_width": 3},
    {"name": "scaled_integer", "width": 3, "scale": tuple(0.1 + 0.01 * r for r in range(12)),
     "zero_point": (0,) * 12, "channel_axis": 0},
    {"name": "minifloat_ieee", "width": 5, "exponent_width": 3},
    {"name": "ternary", "scale": 0.5},
    {"name": "ternary", "scale": None},
    {"name": "mxint", "width": 4, "block_size": 8},
    {"name": "mxint", "width": 3, "block_size": 5},
    {"name": "mxint", "width": 4, "block_size": 4, "axis": 0},
    {"name": "mxfp4", "block_size": 8},
    {"name": "block_fp", "width": 3, "block_size": 8},
    {"name": "nvfp4"},
]  # fmt: skip
IDS = [" ".join(map(str, list(item.values())[:2])) + str(item.get("axis", "")) for item in FORMATS]


def problem(seed=0, rows=12, features=20, samples=400):
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(features, features, generator=generator)
    inputs = torch.randn(samples, features, generator=generator) @ mixing
    weight = torch.randn(rows, features, generator=generator) * 0.4
    hessian = (inputs.T @ inputs).double() / samples
    return weight, inputs, hessian


def dense(weight, hessian, round_value):
    """Round column by column; before each, solve for all columns left, densely.

    With the first columns fixed to `q`, the rest that changes the results least is
    `w_rest + (w_fixed - q) H_fr H_rr^-1`.
    """
    weight = weight.double()
    rounded = torch.zeros_like(weight)
    features = weight.shape[1]
    for column in range(features):
        fixed, rest = slice(0, column), slice(column, features)
        lost = weight[:, fixed] - rounded[:, fixed]
        gain = torch.linalg.solve(hessian[rest, rest], hessian[rest, fixed]).T
        best = weight[:, rest] + lost @ gain
        rounded[:, column] = round_value(best[:, 0])
    return rounded


def test_rounding_is_the_dense_solution():
    weight, _, hessian = problem()
    number_format = make_format({"name": "fixed", "width": 4, "frac_width": 3})
    found = gptq(weight, hessian, number_format, 0.0)
    expected = dense(weight, hessian, number_format.round_values)
    assert torch.equal(found.double(), expected)


@pytest.mark.parametrize("description", FORMATS, ids=IDS)
def test_results_change_less_than_when_weights_are_rounded_to_nearest(description):
    number_format = make_format(description)
    for seed in range(4):
        weight, _, hessian = problem(seed)
        found = number_format.round_values(gptq(weight, hessian, number_format, 0.01))
        nearest = number_format.round_values(weight)
        assert squared_error(weight - found, hessian) < squared_error(weight - nearest, hessian)


@pytest.mark.parametrize("description", FORMATS, ids=IDS)
def test_inputs_that_do_not_depend_on_each_other_change_nothing(description):
    number_format = make_format(description)
    weight, _, _ = problem()
    hessian = torch.diag(torch.rand(20, dtype=torch.float64) + 0.1)
    hessian[3, 3] = 0.0  # an input that is always zero
    found = gptq(weight, hessian, number_format, 0.01)
    # A scale that is taken from the data is one in binary64, another in binary32.
    torch.testing.assert_close(found, number_format.round_values(weight), rtol=1e-6, atol=0)


class Shared(nn.Module):
    """Two layers of one input, and a layer whose weight a look-up shares."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 24)
        self.left, self.right = nn.Linear(24, 24), nn.Linear(24, 24, bias=False)
        self.head = nn.Linear(24, 16, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        x = self.table(ids)
        return self.head(torch.relu(self.left(x)) * self.right(x))


ENTRY = {"name": "none", "weight_name": "mxint", "weight_width": 3, "weight_block_size": 8}
CONFIG = {"by": "type", "linear": {"config": ENTRY}}


def test_a_graph_is_rounded_on_its_own_data():
    torch.manual_seed(0)
    model = Shared().eval()
    ids = torch.randint(0, 16, (32, 6))
    mg = quantize(trace(model, ids), CONFIG)
    before = mg.state_dict()["left.weight"].clone()
    found, info = gptq_transform_pass(mg, {"data": [ids[:16], ids[16:]]})
    # The shared table stays: a look-up reads it, too.
    assert set(info["layers"]) == {"left", "right"}
    assert all(item["gptq"] < item["nearest"] for item in info["layers"].values())
    assert torch.equal(mg.state_dict()["left.weight"], before)
    weight = found.state_dict()["left.weight"]
    number_format = found.call(found.node("left")).operands["weight"].format
    assert torch.equal(number_format.round_values(weight), weight)
    with torch.no_grad():
        errors = [(item(ids) - model(ids)).square().mean() for item in (found, mg)]
    assert errors[0] < errors[1]
    again, _ = gptq_transform_pass(mg, {"data": [ids], "nodes": ["right"]})
    assert torch.equal(again.state_dict()["left.weight"], before)


def test_later_layers_see_what_earlier_ones_have_become():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8)).eval()
    x = torch.randn(200, 16) @ torch.randn(16, 16)
    mg = quantize(trace(model, x), CONFIG)
    both, _ = gptq_transform_pass(mg, {"data": [x]})
    last, _ = gptq_transform_pass(mg, {"data": [x], "nodes": ["linear_2"]})
    first, _ = gptq_transform_pass(mg, {"data": [x], "nodes": ["linear_0"]})
    stepwise, _ = gptq_transform_pass(first, {"data": [x], "nodes": ["linear_2"]})
    key = "2.weight"
    assert torch.equal(both.state_dict()[key], stepwise.state_dict()[key])
    assert not torch.equal(both.state_dict()[key], last.state_dict()[key])


def test_bad_arguments_are_named():
    model = nn.Sequential(nn.Linear(4, 4)).eval()
    x = torch.randn(3, 4)
    plain = quantize(trace(model, x), {"by": "type"})
    with pytest.raises(ConfigError, match="quantize it first"):
        gptq_transform_pass(plain)
    mg = quantize(trace(model, x), CONFIG)
    for arguments, message in (
        ({"damp": 1}, "damping"),
        ({"damping": 2.0}, "from 0"),
        ({"nodes": ["relu"]}, "linear_0"),
    ):
        with pytest.raises(ConfigError, match=message):
            gptq_transform_pass(mg, arguments)
    with pytest.raises(DataError, match="no batch"):
        gptq_transform_pass(mg, {"data": []})
