"""GPTQ: against a dense solution, on layers and networks, in every kind of format."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from mase_hw.emit.flow import quantize
from mase_hw.errors import ConfigError, DataError
from mase_hw.formats import make_format
from mase_hw.graph import trace
from mase_hw.passes.compression.gptq import Method, gptq, gptq_transform_pass, squared_error
from mase_hw.passes.configuration import FLOAT

PLAIN = Method(0.01, order=False, scales=False, sweeps=0)

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
    found = gptq(weight, hessian, number_format, replace(PLAIN, damping=0.0))
    expected = dense(weight, hessian, number_format.round_values)
    assert torch.equal(found.double(), expected)


@pytest.mark.parametrize("description", FORMATS, ids=IDS)
def test_results_change_less_than_when_weights_are_rounded_to_nearest(description):
    number_format = make_format(description)
    for seed in range(4):
        weight, _, hessian = problem(seed)
        nearest = squared_error(weight - number_format.round_values(weight), hessian)
        for method in (PLAIN, Method()):
            found = number_format.round_values(gptq(weight, hessian, number_format, method))
            assert squared_error(weight - found, hessian) < nearest


@pytest.mark.first("fixed 4", "mxint 4", IDS[1])
@pytest.mark.parametrize("description", FORMATS, ids=IDS)
def test_each_part_of_the_method_lessens_the_error(description):
    """On average over problems; a sweep in every one, as it never takes a step that adds error."""
    number_format = make_format(description)
    methods = [PLAIN, replace(PLAIN, sweeps=1), replace(PLAIN, sweeps=4)]
    methods += [replace(PLAIN, scales=True)]
    methods = [replace(item, damping=0.0) for item in methods]
    errors = []
    for seed in range(6):
        weight, _, hessian = problem(seed, features=40)
        found = [gptq(weight.double(), hessian, number_format, method) for method in methods]
        errors.append([squared_error(weight - item, hessian) for item in found])
        assert errors[-1][2] <= errors[-1][1] * (1 + 1e-9) <= errors[-1][0] * (1 + 2e-9)
    plain, _, swept, scaled = torch.tensor(errors).log().mean(0).tolist()
    assert swept < plain
    blocks = "block_size" in description and "axis" not in description
    if blocks:
        assert scaled < plain


def test_large_inputs_first():
    """Their columns are rounded while there are others to make up for them."""
    number_format = make_format({"name": "fixed", "width": 4, "frac_width": 3})
    gains = []
    torch.manual_seed(0)
    for seed in range(6):
        weight, inputs, _ = problem(seed, features=40)
        # Low-rank inputs of very different sizes.
        mixed = torch.cat([inputs[:, :20], inputs[:, :20] @ torch.randn(20, 20)], 1)
        inputs = (mixed + 0.1 * torch.randn(mixed.shape)) * torch.logspace(-1.5, 0, 40)
        hessian = (inputs.T @ inputs).double()
        found = [
            gptq(weight, hessian, number_format, replace(PLAIN, order=order))
            for order in (False, True)
        ]
        before, after = (squared_error(weight - item, hessian) for item in found)
        gains.append(after / before)
    assert sum(gains) / len(gains) < 0.8


@pytest.mark.parametrize("size", [32, 48, 200])
def test_blocks_are_whole_wherever_groups_of_columns_end(size):
    weight, _, hessian = problem(features=300, samples=900)
    number_format = make_format({"name": "mxint", "width": 4, "block_size": size})
    for method in (PLAIN, Method()):
        found = gptq(weight, hessian, number_format, method)
        torch.testing.assert_close(number_format.round_values(found), found, rtol=0, atol=0)
        nearest = squared_error(weight - number_format.round_values(weight), hessian)
        assert squared_error(weight - found, hessian) < nearest


@pytest.mark.parametrize("description", FORMATS, ids=IDS)
def test_inputs_that_do_not_depend_on_each_other_change_nothing(description):
    number_format = make_format(description)
    weight, _, _ = problem()
    hessian = torch.diag(torch.rand(20, dtype=torch.float64) + 0.1)
    hessian[3, 3] = 0.0  # an input that is always zero
    found = gptq(weight, hessian, number_format, replace(PLAIN, order=True, sweeps=2))
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


def test_what_layers_before_lost_is_made_up_for():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 8)).eval()
    x = torch.randn(600, 16) @ torch.randn(16, 16) * 0.3
    mg = quantize(trace(model, x), CONFIG)
    found = [
        gptq_transform_pass(mg, {"data": x.split(100), "correction": share})[0]
        for share in (0.0, 0.5, 1.0)
    ]
    with torch.no_grad():
        without, half, whole = ((item(x) - model(x)).square().mean() for item in found)
    assert whole < half < without
    key = "0.weight"
    assert torch.equal(found[0].state_dict()[key], found[2].state_dict()[key])


class Wide(nn.Module):
    """Inputs and rows of very different sizes, as in trained networks."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(
            nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
        )
        with torch.no_grad():
            for layer in self.layers[::2]:
                sizes = torch.logspace(-1, 1, len(layer.weight))
                layer.weight.mul_(sizes[torch.randperm(len(sizes))][:, None])

    def forward(self, x):
        return self.layers(x)


FEW_BITS = {
    "blocks": ENTRY,
    "channels": {
        "name": "none", "weight_name": "scaled_integer", "weight_width": 3,
        "weight_channel_axis": 0,
    },
    "fixed": {"name": "none", "weight_name": "fixed", "weight_width": 4},
}  # fmt: skip


def wide_inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(64, 64, generator=generator) * torch.logspace(-1.5, 0, 64)
    return torch.randn(2200, 64, generator=generator) @ mixing


def errors_of(seed, entry, data, **options):
    """Return the errors on other data, rounded to nearest and by GPTQ, and what the pass says."""
    model, x = Wide(seed).eval(), wide_inputs(seed)
    mg = quantize(trace(model, x[:100]), {"by": "type", "linear": {"config": entry}})
    found, info = gptq_transform_pass(mg, {"data": data(x), **options})
    with torch.no_grad():
        test = x[200:]
        errors = [float((item(test) - model(test)).square().mean()) for item in (mg, found)]
    return *errors, info


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", FEW_BITS)
@pytest.mark.parametrize("samples", [60, 200])
def test_few_samples_never_make_it_worse(kind, samples):
    for seed in range(3):
        for correction in (0.0, 0.5):
            nearest, found, info = errors_of(
                seed, FEW_BITS[kind], lambda x: [x[:samples]], correction=correction
            )
            assert found <= nearest
            kept = [key for key, item in info["layers"].items() if item["gptq"] == item["nearest"]]
            assert info["kept"] == kept
            if samples == 200:
                assert found < 0.6 * nearest
                assert not kept


@pytest.mark.parametrize("kind", FEW_BITS)
def test_data_that_says_nothing_leaves_weights_rounded_to_nearest(kind, caplog):
    for data in (lambda x: [0 * x[:200]], lambda x: [x[:1]], lambda x: [x[:1].repeat(9, 1)] * 3):
        caplog.clear()
        nearest, found, info = errors_of(0, FEW_BITS[kind], data)
        assert found == nearest
        assert info["kept"] == ["layers_0", "layers_2", "layers_4"]
        assert "3 of 3 layers keep rounding to nearest" in caplog.text


def test_bad_arguments_are_named():
    model = nn.Sequential(nn.Linear(4, 4)).eval()
    x = torch.randn(3, 4)
    plain = quantize(trace(model, x), FLOAT)
    with pytest.raises(ConfigError, match="quantize it first"):
        gptq_transform_pass(plain)
    mg = quantize(trace(model, x), CONFIG)
    for arguments, message in (
        ({"damp": 1}, "damping"),
        ({"damping": 2.0}, "from 0"),
        ({"correction": 2}, "from 0 to 1"),
        ({"sweeps": -1}, "sweeps is -1"),
        ({"order": "yes"}, "order is 'yes'"),
        ({"nodes": ["relu"]}, "linear_0"),
    ):
        with pytest.raises(ConfigError, match=message):
            gptq_transform_pass(mg, arguments)
    with pytest.raises(DataError, match="no batch"):
        gptq_transform_pass(mg, {"data": []})
