"""Loops over time on one step's hardware: exact, in the predicted cycles, with weights once."""

import shutil

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import to_hardware
from mase_hw.errors import EmissionError, SimulationError
from mase_hw.graph.loops import loops_of
from mase_hw.graph.physical import physical
from mase_hw.graph.reference import IntegerReference
from mase_hw.hardware.estimate import estimate_nodes
from tests.engines import exact

STEPS, INPUTS, HIDDEN = 5, 4, 6


class Recurrent(nn.Module):
    """A layer; of its results the sequence."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class States(Recurrent):
    """A layer with states in and out, the batch first."""

    def forward(self, x, h, c):
        found, states = self.layer(x, (h.transpose(0, 1), c.transpose(0, 1)))
        return found, *(state.transpose(0, 1) for state in states)


class Loop(nn.Module):
    """A loop over time steps as a user writes it, with states in and out."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(INPUTS, HIDDEN), nn.Linear(HIDDEN, 3)

    def forward(self, x, h, c):
        found = []
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
            found.append(self.head(h))
        return torch.stack(found, 1), c


class Constants(nn.Module):
    """A loop that reads rows of a tensor, one each step, a mask of steps, and a parameter."""

    def __init__(self):
        super().__init__()
        self.cell, self.gain = nn.GRUCell(INPUTS, HIDDEN), nn.Parameter(torch.rand(HIDDEN))
        self.rows = nn.Parameter(torch.randn(STEPS, HIDDEN))
        self.register_buffer("mask", torch.arange(STEPS) % 2 == 0)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], HIDDEN)
        for step in range(STEPS):
            found = self.cell(x[:, step], h) * self.gain + self.rows[step]
            h = torch.where(self.mask[step], found, h)
        return h


class Shared(nn.Module):
    """A loop that reads the same from outside in every step."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(INPUTS, HIDDEN)

    def forward(self, x):
        h, mean = x.new_zeros(x.shape[0], HIDDEN), x.mean(1)
        for step in x.unbind(1):
            h = self.cell(step - mean, h)
        return h


def sequence(kind, **options):
    return Recurrent(kind(INPUTS, HIDDEN, batch_first=True, **options))


def last(kind):
    class Last(Recurrent):
        def forward(self, x):
            return super().forward(x)[:, -1]

    return Last(kind(INPUTS, HIDDEN, batch_first=True))


def traced(model, batch=6, steps=STEPS):
    torch.manual_seed(0)
    inputs = [torch.randn(batch, steps, INPUTS)]
    if isinstance(model, Loop | States):
        shape = (batch, HIDDEN) if isinstance(model, Loop) else (batch, 2, HIDDEN)
        inputs += [torch.randn(shape), torch.randn(shape)]
    return mase_hw.trace(model.eval(), tuple(inputs))


def check(project, **options):
    report = exact(project, **options)
    return report


CASES = {
    "rnn": (lambda: sequence(nn.RNN), 1),
    "lstm": (lambda: sequence(nn.LSTM), 1),
    "gru": (lambda: sequence(nn.GRU), 1),
    "two layers": (lambda: sequence(nn.GRU, num_layers=2), 2),
    "two directions": (lambda: sequence(nn.LSTM, bidirectional=True), 2),
    "projection": (lambda: sequence(nn.LSTM, proj_size=3), 1),
    "last step": (lambda: last(nn.LSTM), 1),
    "states": (lambda: States(nn.LSTM(INPUTS, HIDDEN, num_layers=2, batch_first=True)), 2),
    "loop": (Loop, 1),
    "constants": (Constants, 1),
    "shared": (Shared, 1),
}
# In which all steps are alike: a first step that is given no state is another one.
GIVEN = ("states", "loop")
QUICK = ("rnn", "loop")


@pytest.mark.first(3)
@pytest.mark.parametrize("name", CASES)
def test_steps_that_are_alike_are_found(name):
    make, loops = CASES[name]
    graph = mase_hw.quantize(traced(make()), reuse=True)
    assert [loop.count for loop in loops_of(graph)] == [STEPS - (name not in GIVEN)] * loops


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in CASES]
)
@pytest.mark.parametrize("parallelism", [2, pytest.param(1, marks=pytest.mark.full)])
def test_loops_are_exact_in_the_predicted_cycles(name, parallelism, tmp_path):
    graph = mase_hw.quantize(traced(CASES[name][0]()), reuse=True)
    project = mase_hw.emit_verilog(graph, output=tmp_path / "p", parallelism=parallelism)
    assert check(project, samples=6).as_predicted is True
    check(project, samples=6, stall=0.4)


class Around(Recurrent):
    """A loop, and a path around it."""

    def forward(self, x):
        return x + super().forward(x)


MEETING = {
    "directions": lambda: sequence(nn.LSTM, bidirectional=True),
    "residual": lambda: Around(nn.GRU(INPUTS, INPUTS, batch_first=True)),
}


@pytest.mark.full
def test_a_direction_waits_for_the_other_in_a_queue():
    """One ends before the other begins; its results must not hold up the inputs of both."""
    graph = mase_hw.quantize(traced(MEETING["directions"](), steps=12), reuse=True)
    shared = to_hardware(graph, parallelism=2)
    queues = {node.name: node.args[1] for node in shared.nodes if node.name.endswith("_fifo")}
    assert max(queues.values()) >= 12 * HIDDEN // 2
    with pytest.raises(EmissionError, match="the design would deadlock"):
        to_hardware(graph, parallelism=2, queues=dict.fromkeys(queues, 1))


@pytest.mark.full
@pytest.mark.parametrize("name", MEETING)
def test_what_meets_a_long_loop_is_exact(name, tmp_path):
    graph = mase_hw.quantize(traced(MEETING[name](), steps=12), reuse=True)
    project = mase_hw.emit_verilog(graph, output=tmp_path / "p", parallelism=2)
    assert check(project, samples=6).as_predicted is True
    check(project, samples=6, stall=0.4)


@pytest.mark.full
def test_the_testbench_sees_the_same(tmp_path):
    graph = mase_hw.quantize(traced(sequence(nn.LSTM)), reuse=True)
    project = mase_hw.emit_verilog(graph, output=tmp_path / "p", parallelism=2)
    assert check(project, samples=4, engine="cocotb").as_predicted is True
    check(project, samples=4, engine="cocotb", stall=0.3)


@pytest.mark.first(2)
@pytest.mark.parametrize("name", CASES)
def test_what_leaves_is_what_steps_of_their_own_compute(name):
    model = CASES[name][0]()
    config = {"name": "fixed", "weight_width": 8, "weight_frac_width": 6, "bias_width": 8}
    config |= {"data_in_width": 8, "data_in_frac_width": 5, "bias_frac_width": 6}
    config = {"by": "type", "default": {"config": config}}
    alone, shared = (
        mase_hw.quantize(traced(model), config, reuse=reuse) for reuse in (False, True)
    )
    torch.manual_seed(1)
    codes = [torch.randint(-64, 64, (7, *item.shape[1:])) for item in alone.example_inputs]
    one, other = (
        [IntegerReference(graph)(codes)[node.name] for node in graph.outputs]
        for graph in (shared, alone)
    )
    assert all(result.unique().numel() > 4 for result in one)
    assert all(result.equal(same) for result, same in zip(one, other, strict=True))


def test_the_hardware_of_a_step_and_its_weights_are_there_once():
    alone, shared = (
        to_hardware(mase_hw.quantize(traced(sequence(nn.LSTM)), reuse=reuse), parallelism=1)
        for reuse in (False, True)
    )
    (loop,), part = loops_of(shared), physical(shared)
    products = [nodes for nodes in loop.places if "weight" in shared.call(nodes[0]).operands]
    assert products
    for nodes in products:
        source = part.netlist(part.node(nodes[0].name)).source("weight")
        assert (
            source.image.octets.size == shared.netlist(nodes[0]).source("weight").image.octets.size
        )
    assert estimate_nodes(shared).total.lut < estimate_nodes(alone).total.lut


def test_formats_are_the_same_in_all_steps():
    graph = mase_hw.quantize(traced(Loop()), reuse=True)
    (loop,) = loops_of(graph)
    for nodes in (*loop.places, *loop.states):
        formats = [graph.call(node).result.format for node in nodes]
        assert formats == formats[:1] * len(formats)


def test_a_step_that_is_another_one_is_named(tmp_path):
    class Fading(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(INPUTS, HIDDEN)

        def forward(self, x, h):
            for number, step in enumerate(x.unbind(1)):
                h = self.cell(step, h) * (1 - number / 8)
            return h

    inputs = torch.randn(3, 4, INPUTS), torch.randn(3, HIDDEN)
    what = r"are not alike: .*test_loops.py:\d+.* differ in the constants of that line"
    with pytest.raises(EmissionError, match=what):
        mase_hw.emit_verilog(Fading().eval(), inputs, output=tmp_path / "p", reuse=True)


@pytest.fixture(scope="module")
def looped(tmp_path_factory):
    """A small loop, emitted."""
    model = Recurrent(nn.RNN(INPUTS, HIDDEN, batch_first=True))
    graph = mase_hw.quantize(traced(model), reuse=True)
    return mase_hw.emit_verilog(graph, output=tmp_path_factory.mktemp("loop") / "p")


# What `mase_loop_exit` says, what it is made to say, and whether nothing comes any more.
FAULTS = {
    "a round too few": (".COUNT(ROUNDS),", ".COUNT(ROUNDS - 1),", True),
    "a dropped beat": ("&& sent && !last;", "&& sent && !last && unused_beat != 1;", True),
    "a beat late": (
        "assign feedback = data_in;",
        "always_ff @(posedge clk) feedback <= data_in;",
        False,
    ),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_what_goes_back_is_found(fault, looped, tmp_path):
    copy, (old, new, hangs) = shutil.copytree(looped.folder, tmp_path / "p"), FAULTS[fault]
    file = copy / "rtl" / "mase_loop_exit.sv"
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    if hangs:
        with pytest.raises(SimulationError, match="layer_tanh"):
            mase_hw.simulate(copy, samples=6, stall=0.3)
    else:
        assert mase_hw.simulate(copy, samples=6, stall=0.3).mismatches > 0


@pytest.mark.full
def test_a_loop_begins_again_after_resets(looped):
    assert mase_hw.simulate(looped, samples=6, resets=8).followed > 0
    check(looped, samples=6, resets=8, stall=0.3)
