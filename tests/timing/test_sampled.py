"""Sampled times: exact where every beat is sampled, and enough for queues of any design."""

import numpy as np
import pytest
import torch
from torch import nn

from mase_hw.cells import Cell, Netlist
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.emit.flow import quantize, to_hardware
from mase_hw.emit.preflight import preflight
from mase_hw.errors import EmissionError
from mase_hw.graph import MaseGraph, trace
from mase_hw.models import models
from mase_hw.passes.hardware.progress import verify_progress_analysis_pass
from mase_hw.timing import curve, prediction, times
from mase_hw.timing.curve import SAMPLES, Curve, sampled
from mase_hw.timing.order import needs, room
from mase_hw.timing.prediction import predict
from mase_hw.timing.sampled import SampledNode
from mase_hw.timing.stages import NodeStages
from tests.flow.test_loops import CASES, traced
from tests.random_designs import configured, graph
from tests.timing.cells import TIMED

# A place counts as free so many cycles early, at most.
EARLY = 4


@pytest.fixture
def sampled_times(monkeypatch):
    def lower(samples: int) -> None:
        for module in (times, prediction):
            monkeypatch.setattr(module, "MOST_BEATS", 0)
        monkeypatch.setattr(prediction, "MOST_LOOP_TIMES", 0)
        for module in (times, curve):
            monkeypatch.setattr(module, "SAMPLES", samples)
        sampled.cache_clear()

    yield lower
    sampled.cache_clear()


@pytest.mark.parametrize(("cell", "netlist"), TIMED, ids=lambda item: type(item).__name__)
def test_a_cell_is_sampled_as_all_its_beats_move(cell, netlist):
    if not (isinstance(cell, StreamFifo) and cell.depth == 1):
        # A beat every second cycle is what sampled times do not say.
        assert_all_beats(netlist)
    assert_what_some_beats_wait_for(cell, netlist)
    assert_every_inference_needs_what_the_first_does(cell, netlist)


def assert_all_beats(netlist: Netlist) -> None:
    generator = np.random.default_rng(0)
    arrivals = {
        name: 100 + np.cumsum(generator.integers(0, 4, size=3 * port.beats))
        for name, port in netlist.inputs.items()
    }
    beats = {name: netlist.inputs[name].beats for name in arrivals}
    ready = np.full(3 * netlist.port(netlist.outputs["data_out_0"]).beats, -1)
    consumed, offered = NodeStages(netlist, arrivals).run(arrivals, ready)
    found, results = SampledNode(netlist, beats).run(arrivals)
    assert set(offered - results) <= {0, 1}
    for name, cycles in consumed.items():
        assert set(cycles - found[name]) <= set(range(EARLY + 1)), name


def assert_what_some_beats_wait_for(cell: Cell, netlist: Netlist) -> None:
    for name in netlist.inputs:
        if name == "weight":
            continue
        port = next(port for port, wire in netlist.links.items() if wire.port == name)[1]
        motion, beats = cell.motion, netlist.inputs[name].beats
        expected = motion.needs(port, beats)
        assert motion.results(beats, port) == expected.size
        found = needs(netlist, name, np.arange(expected.size))
        assert np.array_equal(np.maximum.accumulate(found), np.maximum.accumulate(expected))
        found = room(netlist, name, np.arange(beats))
        assert np.array_equal(np.maximum(found, -1), np.maximum(motion.room(port, beats), -1))


def assert_every_inference_needs_what_the_first_does(cell: Cell, netlist: Netlist) -> None:
    for port in netlist.inputs.keys() - {"weight"}:
        beats = netlist.inputs[port].beats
        one, three = (cell.motion.needs(port, count * beats) for count in (1, 3))
        later = [np.where(one < 0, -1, one + number * beats) for number in range(3)]
        expected = np.maximum.accumulate(np.concatenate(later))
        assert np.array_equal(np.maximum.accumulate(three), expected), port
        assert cell.motion.room(port, 3 * beats).size == 3 * beats, port


def test_samples():
    assert sampled(5).tolist() == [0, 1, 2, 3, 4]
    places = sampled(1_000_003)
    assert places.size == SAMPLES
    assert (places[0], places[-1]) == (0, 1_000_002)
    assert (np.diff(places) > 0).all()


def test_a_curve():
    curve = Curve.of(4, np.arange(8) * 10)
    assert curve.times.tolist() == [0, 10, 20, 30, 40, 50, 60, 70]
    assert curve.come_by(np.array([0, 9, 70, 99])).tolist() == [1, 1, 8, 8]
    # Before the first beat of an inference is the last of the one before.
    assert curve.at(np.array([-1, 3])).tolist() == [-1, 30, 30, 70]


def test_the_last_beat_before_a_pause_is_not_late():
    """Rows of 1,003 beats, one a cycle, every 3,000 cycles: ends are between known beats."""
    beats, row, period = 7 * 1003, 1003, 3000
    places = sampled(beats)
    curve = Curve.of(beats, places // row * period + places % row)
    ends = np.arange(row - 1, beats, row)
    assert not np.isin(ends[:-1], places).all()
    assert curve.at(ends).tolist() == [number * period + row - 1 for number in range(7)]
    assert np.array_equal(curve.at(places), curve.times)


class Residual(nn.Module):
    """A block whose two branches take different times."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 6, 3, padding=1)
        self.second = nn.Conv2d(6, 8, 3, padding=1)
        self.short = nn.Conv2d(4, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + self.short(x))


def _residual() -> MaseGraph:
    torch.manual_seed(0)
    return quantize(trace(Residual(), torch.randn(2, 4, 24, 24)))


def _depths(mg: MaseGraph) -> int:
    return sum(int(node.args[1]) for node in mg.nodes if "fifo" in node.name)


def test_as_the_whole(sampled_times):
    """A design large enough for some beats alone is predicted as it is from all beats, nearly."""
    graph = _residual()
    whole = to_hardware(graph)
    exact = predict(whole)
    assert not exact.sketched
    sampled_times(SAMPLES)
    some = to_hardware(graph)
    found = predict(some)
    assert found.sketched
    assert found.interval_cycles == exact.interval_cycles
    assert found.latency_cycles == pytest.approx(exact.latency_cycles, rel=0.01)
    # Queues are as long as those that are known to be enough, and hardly longer.
    assert _depths(whole) * 0.99 <= _depths(some) <= 1.02 * _depths(whole) + 8


def test_queue_too_short(sampled_times):
    """A design that stops is refused, however its queues were sized."""
    sampled_times(SAMPLES)
    graph = _residual()
    queues = [node.name for node in to_hardware(graph).nodes if "fifo" in node.name]
    with pytest.raises(EmissionError, match="would deadlock"):
        to_hardware(graph, queues=dict.fromkeys(queues, 9))


def _of(model: nn.Module, shape: tuple[int, ...]) -> MaseGraph:
    return quantize(trace(model.eval(), torch.randn(2, *shape)))


NETWORKS = {
    "mnist-cnn": (1, 28, 28),
    "fashion-resnet8": (1, 28, 28),
    "fashion-mobilenet": (1, 28, 28),
    "har-cnn1d": (6, 128),
    "vit-mnist": (1, 28, 28),
}


def _registered(name: str) -> MaseGraph:
    torch.manual_seed(0)
    return _of(models()[name].build(), NETWORKS[name])


def _loop(name: str) -> MaseGraph:
    return quantize(traced(CASES[name][0]()), reuse=True)


def _held_to_all_beats(mg: MaseGraph, parallelism: int | str) -> None:
    """Size queues from sampled times; the check orders all beats and refuses what would stop."""
    hardware = to_hardware(mg, parallelism=parallelism, multipliers=128)
    assert verify_progress_analysis_pass(hardware)[1]["sampled"] is False


@pytest.mark.first("fashion-resnet8-16", "har-cnn1d-16")
@pytest.mark.parametrize("samples", [16, 100])
@pytest.mark.parametrize("name", NETWORKS)
def test_queues_of_registered_networks(name, samples, sampled_times):
    sampled_times(samples)
    _held_to_all_beats(_registered(name), 4 if samples == 16 else "auto")


@pytest.mark.first("loop-2")
@pytest.mark.parametrize("samples", [2, 16])
@pytest.mark.parametrize("name", CASES)
def test_queues_of_loops(name, samples, sampled_times):
    sampled_times(samples)
    _held_to_all_beats(_loop(name), 1)


@pytest.mark.parametrize(
    "seed", [0, 3, 21, *(pytest.param(n, marks=pytest.mark.full) for n in range(22, 60))]
)
def test_queues_of_random_designs(seed, sampled_times):
    drawn = graph(seed)
    mg = drawn and configured(*drawn, seed)
    if mg is None or preflight(mg):
        pytest.skip("nothing is drawn that has hardware")
    for samples in (5, 50):
        sampled_times(samples)
        _held_to_all_beats(mg, 2)
