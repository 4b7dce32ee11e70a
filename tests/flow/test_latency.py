"""Predicted latency of streams that fork into branches of different delay: exact.

Behind a fork a branch that has no room holds up the others.
"""

from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import mase_hw
from mase_hw.emit.flow import quantize, to_hardware
from mase_hw.graph import trace
from mase_hw.timing import back_pressure, prediction
from mase_hw.timing.prediction import predict


class Inception(nn.Module):
    """Branches with windows of one, three and five pixels, and a pool, side by side."""

    def __init__(self, channels, single, three, five, pooled):
        super().__init__()
        self.single = nn.Sequential(nn.Conv2d(channels, single, 1), nn.ReLU())
        self.three = nn.Sequential(
            nn.Conv2d(channels, three, 1), nn.ReLU(), nn.Conv2d(three, three + 1, 3, padding=1)
        )
        self.five = nn.Sequential(
            nn.Conv2d(channels, five, 1), nn.ReLU(), nn.Conv2d(five, five + 1, 5, padding=2)
        )
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(channels, pooled, 1))

    def forward(self, x):
        return torch.cat([self.single(x), self.three(x), self.five(x), self.pooled(x)], 1)


class Dense(nn.Module):
    """Two blocks of a dense network, which send two outputs."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 2, 3, padding=1)
        self.second = nn.Conv2d(5, 2, 3, padding=1)
        self.last = nn.Conv2d(7, 4, 1)

    def forward(self, x):
        x = torch.cat([x, torch.relu(self.first(x))], 1)
        x = torch.cat([x, torch.relu(self.second(x))], 1)
        return self.last(x), x.mean((2, 3))


class Gated(nn.Module):
    """Channels times what the whole image says of them, beside what passes it by."""

    def __init__(self):
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)
        self.beside = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        y = torch.relu(self.squeeze(x.mean((2, 3), keepdim=True)))
        return x * torch.sigmoid(self.excite(y)) + self.beside(x)


class Beside(nn.Module):
    """Every pixel, and behind it what a convolution makes of it, which is always busy."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(2, 2, 1)

    def forward(self, x):
        return torch.cat([x, self.layer(x)], 1)


CASES = {
    "beside": (Beside, (2, 3, 3)),
    "inception": (lambda: Inception(4, 2, 3, 2, 2), (4, 6, 7)),
    "dense": (Dense, (3, 6, 5)),
    "gated": (Gated, (4, 5, 4)),
}


def check(model, shape, folder, parallelism, **options):
    """Emit, simulate and compare."""
    inputs = torch.randn(3, *shape)
    project = mase_hw.emit_verilog(
        model.eval(), inputs, output=folder, parallelism=parallelism, multipliers=24, **options
    )
    report = mase_hw.simulate(project, samples=5)
    assert report.bit_exact
    assert report.latency_cycles == report.predicted_latency_cycles
    assert report.interval_cycles <= report.predicted_interval_cycles


class Beside(nn.Module):
    """A layer that takes its weights with its first beat, beside what has none."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x, y):
        return torch.relu(x), self.layer(y)


class BehindWires(nn.Module):
    """A layer whose lanes are copies of the inputs, which another branch takes too."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return x.softmax(-1)[:, 0], self.layer(x.repeat_interleave(2, 1))


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("model", "shapes"), [(Beside, [(2, 4), (2, 3, 8)]), (BehindWires, [(2, 5, 3)])]
)
def test_the_first_words_of_a_memory_come_later_than_the_first_beats(model, shapes, tmp_path):
    inputs = tuple(torch.randn(*shape) for shape in shapes)
    graph = quantize(trace(model().eval(), inputs))
    for parallelism in (1, "auto"):
        project = mase_hw.emit_verilog(graph, output=tmp_path / "p", parallelism=parallelism)
        report = mase_hw.simulate(project, samples=3)
        assert report.latency_cycles == report.predicted_latency_cycles


@pytest.mark.first("1-beside")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("parallelism", [1, 3, "auto"])
def test_branches_hold_each_other_up(name, parallelism, tmp_path):
    torch.manual_seed(0)
    build, shape = CASES[name]
    check(build(), shape, tmp_path / "project", parallelism)


@pytest.mark.full
def test_late_weights_hold_branches_up(tmp_path):
    torch.manual_seed(0)
    memory = {"default": "external", "latency_cycles": 20, "bytes_per_cycle": 4}
    check(Inception(4, 2, 3, 2, 2), (4, 6, 7), tmp_path / "project", 2, memory=memory)


class Gates(nn.Module):
    """Layers of the same input, multiplied, and a layer behind them, twice."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(6))

    def forward(self, x):
        for up, gate, down in (self.layers[:3], self.layers[3:]):
            x = x + down(up(x) * torch.sigmoid(gate(x)))
        return x


@pytest.mark.parametrize("port", [{"data_width": 32}, {"outstanding": 2, "burst_beats": 4}])
def test_layers_that_wait_for_the_same_port_come_as_predicted(port, tmp_path):
    torch.manual_seed(0)
    graph = quantize(trace(Gates(32).eval(), torch.randn(3, 32)))
    memory = {"default": "external", **port}
    project = mase_hw.emit_verilog(graph, output=tmp_path / "p", parallelism=4, memory=memory)
    found = predict(to_hardware(graph, parallelism=4, memory=memory))
    assert not found.sketched
    assert found.latency_cycles > found.memory.cycles > max(found.work_cycles.values())
    report = mase_hw.simulate(project, samples=1)
    assert report.bit_exact
    assert report.latency_cycles == report.predicted_latency_cycles == found.latency_cycles


def test_a_latency_that_does_not_settle_is_no_promise(monkeypatch):
    torch.manual_seed(0)
    graph = quantize(trace(Gates(32).eval(), torch.randn(3, 32)))
    monkeypatch.setattr(prediction, "SETTLING_ROUNDS", 2)
    assert predict(to_hardware(graph, parallelism=4, memory="external")).sketched


class Skip(nn.Module):
    """A branch around two nodes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return x + torch.relu(self.first(torch.sigmoid(x)))


@pytest.mark.full
def test_a_short_queue_holds_branches_up(tmp_path):
    torch.manual_seed(0)
    inputs = torch.randn(3, 4, 6, 6)
    project = mase_hw.emit_verilog(
        Skip().eval(), inputs, output=tmp_path / "project", parallelism=2, queues={"x_fifo": 6}
    )
    report = mase_hw.simulate(project, samples=5)
    assert report.bit_exact
    assert report.latency_cycles == report.predicted_latency_cycles
    assert report.latency_cycles > 250


def test_a_design_too_large_is_scheduled_as_if_nothing_held_it_up(monkeypatch):
    torch.manual_seed(0)
    graph = trace(Inception(4, 2, 3, 2, 2).eval(), torch.randn(3, 4, 12, 12))
    graph = to_hardware(quantize(graph), parallelism=2)
    exact = predict(graph).latency_cycles
    monkeypatch.setattr(back_pressure, "MOST_TIMES", 10_000)
    assert predict(graph).interval_cycles <= predict(graph).latency_cycles < exact


class Drawn(nn.Module):
    """Branches of convolutions in a row, added or joined."""

    def __init__(self, channels, branches, joined):
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(
                *(nn.Conv2d(channels, channels, size, padding=size // 2) for size in sizes)
            )
            for sizes in branches
        )
        self.joined = joined

    def forward(self, x):
        parts = [branch(x) for branch in self.branches]
        return torch.cat(parts, 1) if self.joined else sum(parts[1:], parts[0])


BRANCHES = st.lists(st.lists(st.sampled_from([1, 1, 3, 5]), max_size=3), min_size=2, max_size=4)


@pytest.mark.full
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    channels=st.integers(1, 4),
    branches=BRANCHES,
    joined=st.booleans(),
    parallelism=st.sampled_from([1, 2, 3, 4, "auto"]),
    size=st.tuples(st.integers(3, 6), st.integers(3, 6)),
)
def test_any_branches(channels, branches, joined, parallelism, size):
    torch.manual_seed(0)
    with TemporaryDirectory() as folder:
        check(Drawn(channels, branches, joined), (channels, *size), folder, parallelism)
