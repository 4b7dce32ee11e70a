"""`preflight` names causes, each with a fix, and never ends in anything but a list."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import quantize
from mase_hw.emit.preflight import preflight
from mase_hw.errors import CaptureError
from mase_hw.graph import trace
from mase_hw.ops import Apply
from mase_hw.passes.configuration import FLOAT
from tests.engines import exact


def reasons(model, *inputs, config=None):
    return [problem.reason for problem in preflight(quantize(trace(model, inputs), config))]


def test_batch_statistics_are_refused_with_the_layers_own_switch():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False))
    (reason,) = reasons(model, torch.randn(3, 4))
    assert "track_running_stats=True" in reason


def test_statistics_that_the_model_computes_are_refused():
    def normalized(x):
        return nn.functional.batch_norm(x, x.flatten()[:4] * 1, torch.ones(4))

    (reason,) = [item for item in reasons(Apply(normalized), torch.randn(3, 4)) if "mean" in item]
    assert "it must be constant" in reason


@pytest.mark.parametrize("batch", [1])
def test_states_whose_batch_is_behind_their_layers_are_told_how_to_be_taken(batch):
    class States(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.GRU(3, 4, 2, batch_first=True)

        def forward(self, x, h):
            return self.layer(x, h)[0]

    first, *_ = reasons(States(), torch.randn(batch, 5, 3), torch.randn(2, batch, 4))
    assert "take it with the batch first and transpose(0, 1) it" in first


SCALARS = {"prelu": nn.PReLU(), "relu": nn.ReLU(), "scaled": Apply(lambda x: x * 0.5 + x)}


@pytest.mark.parametrize("name", SCALARS)
def test_a_scalar_is_emitted(name, tmp_path):
    project = mase_hw.emit_verilog(SCALARS[name], torch.tensor(-0.75), output=tmp_path / "project")
    assert project.design.inputs[0].spec.shape == ()


REDUCTIONS = {
    "sum": lambda x: x.sum(-1),
    "argmax": lambda x: x.argmax(-1),
    "max": lambda x: x.max(0).values,
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_a_scalar_are_refused(name):
    assert reasons(Apply(REDUCTIONS[name]), torch.tensor(-0.75))


class Running(nn.Module):
    """A running sum in the middle, between nodes that have no formats of their own."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        y = self.before(x).reshape(-1, 2, 2).logcumsumexp(-1).reshape(-1, 4)
        return self.after(torch.relu(y)[:, :4].reshape(-1, 4))


def test_what_follows_from_another_refusal_is_not_listed():
    (reason,) = reasons(Running(), torch.randn(3, 4))
    assert reason.startswith(
        "aten.logcumsumexp.default has no hardware: cut the model in two there"
    )


def test_the_fix_for_the_end_of_a_model_works():
    layers = [nn.Linear(4, 4), nn.ReLU(), Apply(lambda x: x.logcumsumexp(-1))]
    (reason,) = reasons(nn.Sequential(*layers), torch.randn(3, 4))
    assert "return what goes into it and compute it outside" in reason
    assert reasons(nn.Sequential(*layers[:-1]), torch.randn(3, 4)) == []


def test_the_fix_for_the_start_of_a_model_works():
    layers = [Apply(lambda x: x.logcumsumexp(-1)), nn.Linear(4, 4)]
    values = torch.randn(3, 4)
    (reason,) = reasons(nn.Sequential(*layers), values)
    assert "compute it outside and make its result an input" in reason
    assert reasons(layers[1], layers[0](values)) == []


def fixed(*names):
    entry = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
    return {"by": "type", **FLOAT, **{name: {"config": entry} for name in names}}


LAYOUT = {
    "above": ([nn.Flatten(), nn.ReLU(), nn.Unflatten(1, (2, 2)), nn.Linear(2, 4)], "linear"),
    "between": ([nn.Linear(2, 4), nn.Flatten(), nn.Sigmoid(), nn.Flatten(), nn.ReLU()], "sigmoid"),
    "relu alone": ([nn.Flatten(), nn.ReLU(), nn.Unflatten(1, (2, 2))], "relu"),
}


@pytest.mark.parametrize("name", LAYOUT)
def test_a_missing_format_is_asked_for_where_giving_it_is_enough(name):
    layers, cause = LAYOUT[name]
    mg, rest = trace(nn.Sequential(*layers), torch.randn(3, 2, 2)), {"linear"} - {cause}
    if not any(isinstance(layer, nn.Linear) for layer in layers):
        rest = set()
    (problem,) = preflight(quantize(mg, fixed(*rest)))
    assert f"configure one for {cause}" in problem.reason
    assert preflight(quantize(mg, fixed(cause, *rest))) == []


def test_an_input_that_is_only_moved_asks_for_a_default():
    mg = trace(Apply(lambda x: x.transpose(1, 2).reshape(-1, 6)), torch.randn(3, 2, 3))
    (problem,) = preflight(quantize(mg, fixed()))
    assert problem.node == mg.inputs[0].name
    assert "give a default" in problem.reason
    assert preflight(quantize(mg, {**fixed(), "default": fixed("all")["all"]})) == []


class Positions(nn.Module):
    """A layer over the one position of channels, which stream last."""

    def __init__(self):
        super().__init__()
        self.channels, self.positions = nn.Conv1d(4, 3, 3), nn.Linear(1, 2)

    def forward(self, x):
        return self.positions(self.channels(x))


class Rows(nn.Module):
    """A layer over several rows that come in another order."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 4), nn.Linear(4, 5)

    def forward(self, x):
        return self.second(self.first(x).mT.contiguous().view(3, -1))


@pytest.mark.first(1)
@pytest.mark.parametrize(("model", "shape"), [(Positions(), (1, 4, 3)), (Rows(), (3, 6))])
def test_a_layer_takes_its_features_out_of_any_order(model, shape, tmp_path):
    project = mase_hw.emit_verilog(
        model, torch.randn(shape), output=tmp_path / "project", parallelism=3
    )
    exact(project, samples=4, stall=0.2)


def test_a_tensor_without_elements_is_refused():
    function = Apply(lambda x: x[..., :0].reshape(x.shape[0], -1, 1))
    with pytest.raises(CaptureError, match="leaves no element: its result has the shape"):
        reasons(function, torch.randn(3, 4, 2))


def test_rows_of_whole_numbers_at_computed_places_are_named():
    """They are looked up where they are real, or all alike."""
    kinds = torch.tensor([0, 1, 1])
    found = reasons(Apply(lambda x, kinds: kinds[x], kinds), torch.tensor([[0, 2], [1, 1]]))
    assert any("only rows of a table of real numbers" in item for item in found)


@pytest.mark.parametrize("function", [torch.nonzero, lambda x: torch.unique(x)])
def test_a_size_that_depends_on_the_data_is_said(function):
    mg = quantize(trace(Apply(function), torch.randn(2, 3)))
    problems = [str(item) for item in preflight(mg)]
    assert any("the size of its result depends on the data" in item for item in problems)


@pytest.mark.parametrize("kind", ["AvgPool", "MaxPool", "AdaptiveAvgPool", "AdaptiveMaxPool"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("config", [None, {"default": {"config": {"name": "minifloat_ieee"}}}])
def test_a_pool_of_one_sample_is_told_about_the_batch(kind, dimensions, config):
    model = getattr(nn, f"{kind}{dimensions}d")(2)
    found = reasons(model, torch.randn(4, *[6] * dimensions), config=config)
    assert "no batch dimension" in found[-1]


def test_attention_without_a_batch_is_told_about_it():
    model = Apply(lambda x: nn.functional.scaled_dot_product_attention(x, x, x))
    assert "not of 2 dimensions" in reasons(model, torch.randn(4, 6))[-1]


@pytest.mark.parametrize("names", [("binary", "none"), ("none", "binary"), ("ternary", "binary")])
def test_problems_of_casts_name_nodes_of_the_model(names):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)).eval()
    captured = mase_hw.trace(model, torch.randn(16, 8))
    outer, inner = ({"config": {"name": name}} for name in names)
    config = {"by": "name", "linear_0": outer, "tanh_1": inner, "linear_2": outer}
    graph = mase_hw.quantize(captured, config)
    casts = [node.name for node in graph.nodes if node.name.endswith("_cast")]
    assert casts
    problems = preflight(graph)
    assert problems
    assert {item.node for item in problems} <= {node.name for node in captured.nodes}
