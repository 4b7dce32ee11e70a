"""Compositions of torch operators become the operator that they mean."""

import math
from math import inf

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import UnsupportedError
from mase_hw.graph import common
from mase_hw.ops import Apply, Recognized, Unary, example_values, operators, torch_target
from mase_hw.passes.canonical import raise_patterns
from mase_hw.passes.canonical.raise_patterns import raise_patterns_transform_pass


def gelu_new(x):
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


ROW = torch.arange(1.0, 6.0)
SPELLINGS = {
    "1 / x": (lambda x: 1 / x, "reciprocal"),
    "1.0 / x": (lambda x: 1.0 / x, "reciprocal"),
    "torch.div(1, x)": (lambda x: torch.div(1, x), "reciprocal"),
    "x ** -1": (lambda x: x**-1, "reciprocal"),
    "x ** -1.0": (lambda x: x**-1.0, "reciprocal"),
    "x ** -0.5": (lambda x: x**-0.5, "rsqrt"),
    "1 / sqrt(x)": (lambda x: 1 / torch.sqrt(x), "rsqrt"),
    "(x ** 0.5) ** -1": (lambda x: (x**0.5) ** -1, "rsqrt"),
    "x ** 0.5": (lambda x: x**0.5, "sqrt"),
    "x ** 2": (lambda x: x**2, "square"),
    "pow(x, 2.0)": (lambda x: torch.pow(x, 2.0), "square"),
    "square(x)": (torch.square, "square"),
    "x * x": (lambda x: x * x, "mul"),
    "x * sigmoid(x)": (lambda x: x * torch.sigmoid(x), "silu"),
    "sigmoid(x) * x": (lambda x: torch.sigmoid(x) * x, "silu"),
    "x * tanh(softplus(x))": (lambda x: x * torch.tanh(F.softplus(x)), "mish"),
    "x - tanh(x)": (lambda x: x - torch.tanh(x), "tanhshrink"),
    "rms norm of Llama": (
        lambda x: x * torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True) + 1e-6),
        "rms_norm",
    ),
    "rms norm with a row of weights": (
        lambda x: ROW * (x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-5)),
        "rms_norm",
    ),
    "scaled softmax": (lambda x: torch.softmax(x * 0.35, -1), "softmax"),
    "gelu of BERT": (lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))), "gelu"),
    "gelu of GPT-2": (gelu_new, "gelu"),
    "gelu by x * x": (
        lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x))),
        "gelu",
    ),
}


def raised(function, values=None):
    values = example_values(4, 5).abs() + 0.25 if values is None else values
    graph = mase_hw.trace(Apply(function), values)
    graph, info = raise_patterns_transform_pass(graph)
    return canonicalize(graph), info["raised"], values


@pytest.mark.parametrize(("function", "name"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_spelling_is_one_operator(function, name):
    graph, _, values = raised(function)
    (node,) = [node for node in graph.nodes if node.op == "call_function"]
    assert common(node).operator == name
    assert torch.allclose(graph(values), function(values), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", [name for name, item in sorted(operators().items()) if isinstance(item, Recognized)]
)
def test_a_pattern_computes_the_operator(name):
    operator = operators()[name]
    values = torch.rand(64, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1
    for spelling in operator.patterns(values):
        result, arguments = spelling if isinstance(spelling, tuple) else (spelling, {})
        given = {"self": values, **arguments}
        target = torch_target(operator.targets[0])
        expected = operator.compute(target, given, {"data_in_0": values})
        # A spelling may say in which dtype it computes.
        tolerance = 1e-12 if result.dtype is torch.float64 else 1e-6
        assert torch.allclose(result.double(), expected, rtol=tolerance)


def test_both_forms_of_gelu_keep_apart():
    for function, form in ((gelu_new, "tanh"), (SPELLINGS["gelu of BERT"][0], "none")):
        graph, _, _ = raised(function)
        (node,) = [node for node in graph.nodes if node.op == "call_function"]
        assert graph.call(node).attributes["approximate"] == form


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * torch.sigmoid(x + 1),
        lambda x: 2 / x,
        lambda x: x**2.001,
        lambda x: torch.add(x, torch.tanh(x), alpha=-2),
        lambda x: 0.5 * x * (1.0 + torch.tanh(0.79 * (x + 0.044715 * x**3))),
        lambda x: (lambda inner: x * inner + inner)(torch.sigmoid(x)),
    ],
)
def test_what_only_looks_like_a_pattern_stays(function):
    _, names, _ = raised(function)
    assert [name for name in names if not name.startswith(("reciprocal", "pow"))] == []


class ReluSquared(Unary):
    """The activation of Primer (arXiv:2109.08668)."""

    name = "relu_squared"
    targets = ("mase.relu_squared.default",)

    def equation(self, x, math, attributes):
        return math.clip(x, 0.0, inf) * math.clip(x, 0.0, inf)

    def patterns(self, x):
        yield torch.square(torch.relu(x))
        yield torch.relu(x) ** 2
        yield torch.relu(x) * torch.relu(x)


@pytest.fixture
def with_relu_squared(monkeypatch):
    found = {**operators(), "relu_squared": ReluSquared()}
    monkeypatch.setattr(raise_patterns, "operators", lambda: found)
    raise_patterns._compositions.cache_clear()
    yield
    raise_patterns._compositions.cache_clear()


def once(x):
    positive = torch.relu(x)
    return positive * positive


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.square(torch.relu(x)),
        lambda x: F.relu(x) ** 2,
        lambda x: torch.relu(x) * nn.functional.relu(x),
        once,
        lambda x: torch.relu(x).pow(2.0),
    ],
)
def test_the_largest_composition_counts(function, with_relu_squared):
    graph = mase_hw.trace(Apply(function), example_values(4, 5))
    graph, _ = raise_patterns_transform_pass(graph)
    (node,) = [node for node in graph.nodes if node.op == "call_function"]
    assert str(node.target) == "mase.relu_squared.default"


def compositions_of(monkeypatch, *spellings):
    class Again(ReluSquared):
        name, targets = "again", ("aten.relu.default",)

        def patterns(self, x):
            for spelling in spellings:
                yield spelling(x)

    monkeypatch.setattr(raise_patterns, "operators", lambda: {"again": Again()})
    raise_patterns._compositions.cache_clear()
    try:
        return raise_patterns._compositions()
    finally:
        raise_patterns._compositions.cache_clear()


def test_an_operator_is_not_raised_to_itself(monkeypatch):
    twice = compositions_of(monkeypatch, torch.relu, lambda x: torch.relu(torch.relu(x)))
    assert [item.size for item in twice] == [2]


@pytest.mark.parametrize(
    ("spelling", "reason"),
    [
        (lambda x: x, "computes nothing"),
        (lambda x: torch.relu(x) if float(x.sum()) > 0 and x.missing else x, "be captured"),
    ],
)
def test_a_pattern_that_is_no_composition_is_refused_by_name(monkeypatch, spelling, reason):
    with pytest.raises(UnsupportedError, match=rf"operator again .*{reason}"):
        compositions_of(monkeypatch, spelling)
