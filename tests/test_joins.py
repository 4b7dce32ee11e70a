"""Streams that are joined, cut, repeated and padded: bit-exact, at the bound, queues that fit."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional

import mase_hw
from mase_hw.emit.design import DesignSummary
from mase_hw.emit.flow import quantize
from mase_hw.emit.preflight import preflight
from mase_hw.errors import CaptureError, ConfigError, EmissionError
from mase_hw.graph import common, trace
from tests.engines import as_predicted, exact


class Function(nn.Module):
    """Calls a function of the inputs and of modules."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *inputs):
        return self.function(*inputs, *self.parts)


class ClassToken(nn.Module):
    """A learned row in front of every inference's rows."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 6))
        self.places = nn.Parameter(torch.randn(1, 5, 6))

    def forward(self, x):
        return torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places


class Coordinates(nn.Module):
    """Constant channels in front of an image's, and a constant for each channel of the result."""

    def __init__(self):
        super().__init__()
        self.grid = nn.Parameter(torch.randn(1, 3, 3, 4))
        self.mix = nn.Conv2d(9, 4, 1)
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x):
        grid = self.grid.expand(x.shape[0], -1, -1, -1)
        return self.mix(torch.cat([grid, x], 1)) * self.scale.reshape(-1, 1, 1)


def gate(x, squeeze, excite):
    """A squeeze-and-excitation gate: `[N, C, H, W]` times `[N, C, 1, 1]`."""
    return x * torch.sigmoid(excite(torch.relu(squeeze(x.mean((2, 3), keepdim=True)))))


def dense(x, first, second):
    """Channels that do not divide the lanes, joined twice."""
    y = torch.cat([x, first(x)], 1)
    return torch.cat([y, second(y)], 1)


def rotated(x):
    """The halves of a row, exchanged and turned, as rotary embeddings do."""
    left, right = x.chunk(2, -1)
    return torch.cat([-right, left], -1) + x


def crossed(x, y):
    """Two results, each of which takes the beats of both, in the other order."""
    first, second = x * 0.5, y + 1
    return torch.cat([first, second], -1), torch.cat([second, first], -1)


def met_later(x, first, second):
    """Rows that meet in one order, and their ends in the other, as a recurrent layer's states."""
    one, two = torch.tanh(first(x)), torch.tanh(second(x))
    ends = torch.cat([one[:, -1], two[:, 0]], -1)
    return torch.cat([one, two.flip(1)], -1), ends


def in_part(x, y):
    """A sum that goes out whole and whose rows meet their own mean, twice over."""
    sums = x + y
    row = torch.cat([sums, sums], -1)[:, 1:2] + sums[:, :1].mean(-1, keepdim=True)
    pair = torch.cat([row, row], -1)
    turned = torch.cat([pair * 0.75, pair.flip(1)], -1)
    return turned[..., 3:9], torch.cat([sums, x * 0.5], -1), pair * 0.75, sums


def attended(x, y):
    """One input that goes three ways, each of them through a queue."""
    return functional.scaled_dot_product_attention(x, y, x) + x[:, :1]


def met_elsewhere(x, y):
    """What meets another input late holds up, at the fork, what goes round to itself."""
    return x * y.mean(-1, keepdim=True), x * x[:, 1:].mean(-1, keepdim=True)


def met_above(x, y):
    """What forks meets its own input early, and itself late."""
    product = x * y
    scaled = product * y.mean(-1, keepdim=True)
    return torch.cat([x, product], -1), functional.gelu(product) + scaled


def chosen_beside_blocks(x):
    """What is late is added to what waits for it, beside a comparison of that."""
    y = torch.relu(x)
    return torch.where(y > 0.1, y * -2 + y, y)


def diamonds(x, a, b, c):
    y = a(x)
    z = torch.relu(b(y) + y)
    return c(z) * z + x


def two_outputs(x, y, a):
    """The first one also goes on inside."""
    h = a(x)
    return h, torch.relu(h) + y


def renamed(x):
    """An input that goes both ways into a product, behind nothing but wires."""
    rows = x.reshape(x.shape[0], -1, 1)
    return rows.transpose(1, 2) @ rows, rows.cumsum(-1) * 0.5 + rows


CASES = {
    "renamed": (Function(renamed), [(2, 5, 3)]),
    "diamonds": (Function(diamonds, *(nn.Linear(8, 8) for _ in range(3))), [(4, 8)]),
    "two outputs": (Function(two_outputs, nn.Linear(6, 10)), [(4, 6), (4, 10)]),
    "a layer twice": (Function(lambda x, a: a(torch.relu(a(x))), nn.Linear(8, 8)), [(4, 8)]),
    "met elsewhere": (Function(met_elsewhere), [(2, 5), (2, 5)]),
    "met above": (Function(met_above), [(2, 2, 4, 5), (2, 2, 4, 5)]),
    "attended": (Function(attended), [(2, 3, 6), (2, 3, 6)]),
    "one head of queries": (
        Function(lambda x, y: functional.scaled_dot_product_attention(x, y, y)),
        [(2, 1, 3, 4), (2, 2, 3, 4)],
    ),
    "crossed": (Function(crossed), [(3, 2, 9), (3, 2, 10)]),
    "met later": (Function(met_later, nn.Linear(5, 7), nn.Linear(5, 7)), [(3, 3, 5)]),
    "in part": (Function(in_part), [(2, 3, 5), (2, 3, 5)]),
    "gate": (Function(gate, nn.Conv2d(6, 3, 1), nn.Conv2d(3, 6, 1)), [(3, 6, 4, 3)]),
    "dense": (Function(dense, nn.Conv2d(3, 2, 3, padding=1), nn.Conv2d(5, 6, 1)), [(3, 3, 4, 4)]),
    "rotated": (Function(rotated), [(3, 2, 10)]),
    "class token": (ClassToken(), [(3, 4, 6)]),
    "coordinates": (Coordinates(), [(3, 6, 3, 4)]),
    "centred": (Function(lambda x: x - x.mean(-1, keepdim=True)), [(3, 5, 7)]),
    "outer": (Function(lambda x, y: x * y), [(3, 5, 1), (3, 1, 6)]),
    "one of each row": (Function(lambda x, y: x + y), [(4, 7), (4, 1)]),
    "rows": (Function(lambda x, a: torch.cat([a(x), x], 1) + 1, nn.Linear(8, 8)), [(3, 4, 8)]),
    "twice": (Function(lambda x: torch.cat([x, x], 1) * 0.5), [(3, 6)]),
    "unbound": (Function(lambda x: torch.stack(x.unbind(1)[::-1], 2)), [(3, 3, 5)]),
    "repeated": (Function(lambda x: x.repeat(1, 2, 3) + 1), [(3, 2, 5)]),
    "channels": (Function(lambda x: functional.pad(x, (0, 0, 0, 0, 1, 2)) + 1), [(3, 4, 3, 3)]),
    "images": (Function(lambda x: x[:, :1] + x.amax((2, 3), keepdim=True)), [(3, 5, 3, 4)]),
    "rank 1": (Function(lambda x: torch.relu(x * 0.5 + x)), [(11,)]),
    "rank 5": (
        Function(lambda x, a: torch.relu(a(x)) + x[:, :, :1], nn.Linear(5, 5)),
        [(2, 2, 3, 2, 5)],
    ),
    "no batch": (Function(lambda x, y: torch.cat([x, y]) * 0.5), [(3, 5), (2, 5)]),
    "an input without the batch": (Function(lambda x, y: x * y), [(3, 2, 5), (5,)]),
    "pooled": (
        Function(lambda x: functional.adaptive_max_pool2d(x, (2, 1)) - x.amax((2, 3), True)),
        [(2, 4, 5, 3)],
    ),
}
BLOCKS = {f"{part}_block_size": 2 for part in ("data_in", "weight", "bias")}
IN_FORMATS = {
    # A comparison is as late as it can be, and what is added to late blocks as it may be.
    "chosen beside blocks": (
        Function(chosen_beside_blocks),
        [(2, 3, 6)],
        {"mul": {"name": "block_log", **BLOCKS}},
    ),
    # Rows and their elements are repeated, and wait for each other behind wires.
    "sorted floats": (
        Function(lambda x: (x * 0.5).topk(2, -1)[0]),
        [(2, 4, 3, 6)],
        {"default": {"name": "minifloat_denorm"}},
    ),
}
# Inferences end a cycle earlier and later in turn.
IN_TURN = {("met above", 4)}
SINGLE = (
    "renamed", "met elsewhere", "met above", "crossed", "met later", "in part", "gate", "rotated",
    "class token",
)  # fmt: skip


def check(project, in_turn=False):
    exact(project, samples=60, stall=0.4, seed=3)
    report = as_predicted(project, samples=40, queues=True)
    assert in_turn or report.interval_cycles == report.predicted_interval_cycles
    assert report.latency_cycles == report.predicted_latency_cycles
    assert len(report.queues) == len(DesignSummary.load(project.folder).queues)
    for mark in report.queues:
        assert mark.high_water <= mark.depth <= max(2 * mark.high_water, 2), mark


@pytest.mark.full
@pytest.mark.parametrize("name", IN_FORMATS)
def test_joins_in_formats(name, tmp_path):
    model, shapes, formats = IN_FORMATS[name]
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(torch.randn(shape, generator=generator) for shape in shapes)
    given = {"default": {"name": "fixed"}, **formats}
    config = {"by": "name", **{name: {"config": entry} for name, entry in given.items()}}
    mg = quantize(trace(model.eval(), inputs), config)
    check(mase_hw.emit_verilog(mg, output=tmp_path / "project", parallelism=1))


def emit(name, folder, **options):
    model, shapes = CASES[name]
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(torch.randn(shape, generator=generator) for shape in shapes)
    return mase_hw.emit_verilog(model.eval(), inputs, output=folder / "project", **options)


@pytest.mark.first("attended-3", "diamonds-4")
@pytest.mark.parametrize(
    ("name", "parallelism"),
    [*((name, 4) for name in CASES), *((name, 1) for name in SINGLE), ("attended", 3)],
)
def test_joins(name, parallelism, tmp_path):
    project = emit(name, tmp_path, parallelism=parallelism)
    check(project, in_turn=(name, parallelism) in IN_TURN)


def test_without_their_queues_streams_that_cross_are_refused(tmp_path):
    project = emit("crossed", tmp_path / "computed", parallelism=1)
    queues = {queue.node: 1 for queue in project.design.queues}
    assert queues
    with pytest.raises(EmissionError, match=r"would deadlock at .*cat.* holds 1 and needs"):
        emit("crossed", tmp_path / "short", parallelism=1, queues=queues)


@pytest.mark.full
@pytest.mark.parametrize("name", ["gate", "rotated", "coordinates"])
def test_the_other_engine(name, tmp_path):
    project = emit(name, tmp_path, parallelism=4)
    exact(project, samples=8, stall=0.4, seed=5, engine="cocotb")


def operators(graph):
    return [common(node).operator for node in graph.nodes if node.op == "call_function"]


def test_operands_of_other_formats_are_cast():
    config = {
        "by": "name",
        "default": {"config": {"name": "fixed", "data_in_width": 8}},
        "mul": {"config": {"name": "fixed", "data_out_width": 6, "data_out_frac_width": 4}},
        "cat": {"config": {"name": "fixed", "data_in_width": 7, "data_in_frac_width": 3}},
    }
    model = Function(lambda x, y: torch.cat([x * 0.5, y + 1.0], 1))
    x, y = torch.randn(3, 4), torch.randn(3, 5)
    quantized = quantize(mase_hw.trace(model, (x, y)), config)
    assert operators(quantized) == ["mul", "cast", "add", "cat"]
    (cat,) = (node for node in quantized.nodes if node.name == "cat")
    specs = [*common(cat).operands.values(), *common(cat).results.values()]
    assert {str(item.format) for item in specs} == {"fixed<7,3>"}
    config["cat"]["config"]["data_in_1_width"] = 4
    with pytest.raises(ConfigError, match=r"cat.*unknown key 'data_in_1_width'"):
        quantize(mase_hw.trace(model, (x, y)), config)


def test_a_stream_takes_one_tile_more_where_a_joint_cuts_it(tmp_path):
    """5 + 5 elements in tiles of 4 are 3 tiles, not 2 + 2."""
    project = emit("rotated", tmp_path, parallelism=4)
    (join,) = (node for node in project.design.nodes if node.operator == "cat")
    assert join.work_cycles == 2 * 3
    assert project.design.interval_cycles == 2 * 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.stack([x, x.reshape(-1, 12)]),
        lambda x, y: torch.cat([x, y], 3),
        lambda x, y: torch.cat([x, y], 1),
        lambda x, y: x * y,
        lambda x: x.split([3, 3], 1)[0],
        lambda x: x.unbind(4)[0],
        lambda x: x[:, 7],
        lambda x: x.expand(-1, 9, -1),
        lambda x: x[:, : int(x.argmax())],
        lambda x: x[:, x[0, 0, 0].long() :],
    ],
)
def test_shapes_that_do_not_fit_are_named_with_their_line(function):
    inputs = (torch.randn(2, 4, 3), torch.randn(2, 4, 5))[: function.__code__.co_argcount]
    with pytest.raises(CaptureError) as error:
        mase_hw.trace(Function(function), inputs)
    assert f"{__file__}:" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_join_without_elements_is_named_with_its_line():
    function = Function(lambda x: x[:, 4:] * 2)
    with pytest.raises(CaptureError, match=f"{re.escape(__file__)}.*leaves no element"):
        mase_hw.trace(function, torch.randn(1, 4, 3))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.cat([x, x], 0), "joins dimension 0, the batch"),
        (lambda x: x.unbind(0)[0] * 2, "cuts dimension 0, the batch"),
    ],
)
def test_what_has_no_hardware_is_named_before_emission(function, reason):
    problems = preflight(quantize(mase_hw.trace(Function(function), torch.randn(1, 4))))
    assert reason in problems[0].reason
    assert problems[0].source.startswith(f"{__file__}:")
