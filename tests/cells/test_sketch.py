"""Times of some beats: those of the motions where every beat is one of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from mase_hw.cells import MOVES, SAMPLES, Cell, Curve, Netlist, cells, sampled
from mase_hw.emit.flow import quantize, to_hardware
from mase_hw.errors import EmissionError
from mase_hw.graph import MaseGraph, trace
from mase_hw.timing import deadlock, depths, prediction

SINGLE = [cell for kind in cells() for cell in kind.samples()]
# A buffer that a short image fills holds an image back until what needs it has come: of several
# images, times of some beats let it in. A queue of one beat takes one every second cycle.
LOOSE = ("SlidingWindow", "StreamFifo", "StreamReplay", "Crop")


def _netlist(cell: Cell) -> Netlist | None:
    ports = {name: port for name, port in cell.inputs.items() if port.beats}
    # Biases and factors come beat for beat with results.
    if not ports or not cell.outputs or {"bias", "factor", "mask"} & set(ports):
        return None
    return Netlist.single(ports, cell)


@pytest.mark.parametrize("cell", SINGLE, ids=lambda cell: type(cell).__name__)
def test_all_beats(cell: Cell) -> None:
    netlist = _netlist(cell)
    if netlist is None:
        pytest.skip("no streams of its own")
    generator = np.random.default_rng(0)
    arrivals = {
        name: 100 + np.cumsum(generator.integers(0, 4, size=3 * port.beats))
        for name, port in netlist.inputs.items()
    }
    flow = netlist.run(arrivals)
    curves = {name: Curve(netlist.inputs[name].beats, cycles) for name, cycles in arrivals.items()}
    sketch = netlist.sketch(curves)
    if type(cell).__name__ in LOOSE:
        assert abs(int(sketch.offered.times[-1]) - int(flow.offered["data_out_0"][-1])) <= 23
        return
    assert np.array_equal(sketch.offered.times, flow.offered["data_out_0"])
    for name, cycles in flow.taken.items():
        assert np.array_equal(sketch.taken[name].times, cycles), name


@pytest.mark.parametrize("cell", SINGLE, ids=lambda cell: type(cell).__name__)
def test_what_some_beats_wait_for(cell: Cell) -> None:
    netlist = _netlist(cell)
    if netlist is None:
        pytest.skip("no streams of its own")
    for name in netlist.inputs:
        if name == "weight":
            continue
        needs, room = netlist.needs(name), netlist.room(name)
        found = netlist.needs_of(name, np.arange(needs.size))
        assert np.array_equal(np.maximum.accumulate(found), np.maximum.accumulate(needs))
        found = netlist.room_of(name, np.arange(room.size))
        assert np.array_equal(np.maximum(found, -1), np.maximum(room, -1))


@pytest.mark.parametrize("cell", SINGLE, ids=lambda cell: type(cell).__name__)
def test_every_inference_needs_what_the_first_does(cell: Cell) -> None:
    netlist = _netlist(cell)
    if netlist is None:
        pytest.skip("no streams of its own")
    for port in netlist.inputs.keys() - {"weight"}:
        beats = netlist.inputs[port].beats
        one, three = (cell.motion.needs(port, count * beats) for count in (1, 3))
        later = [np.where(one < 0, -1, one + number * beats) for number in range(3)]
        expected = np.maximum.accumulate(np.concatenate(later))
        assert np.array_equal(np.maximum.accumulate(three), expected), port
        assert cell.motion.room(port, 3 * beats).size == 3 * beats, port


def test_samples() -> None:
    assert sampled(5).tolist() == [0, 1, 2, 3, 4]
    places = sampled(1_000_003)
    assert places.size == SAMPLES
    assert (places[0], places[-1]) == (0, 1_000_002)
    assert (np.diff(places) > 0).all()


def test_even_curve() -> None:
    curve = Curve.even(4, 40, 2)
    assert curve.times.tolist() == [0, 10, 20, 30, 40, 50, 60, 70]
    assert curve.come_by(np.array([0, 9, 70, 99])).tolist() == [1, 1, 8, 8]
    assert curve.at(np.array([-1, 3])).tolist() == [-1, 30, -1, 70]


def test_the_last_beat_before_a_pause_is_not_late() -> None:
    """Rows of 1,003 beats, one a cycle, every 3,000 cycles: ends are between known beats."""
    beats, row, period = 7 * 1003, 1003, 3000
    places = sampled(beats)
    curve = Curve(beats, places // row * period + places % row)
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
        """Return the sum."""
        return torch.relu(self.second(torch.relu(self.first(x))) + self.short(x))


def _residual() -> MaseGraph:
    torch.manual_seed(0)
    return quantize(trace(Residual(), torch.randn(2, 4, 24, 24)))


def _depths(mg: MaseGraph) -> int:
    return sum(int(node.args[1]) for node in mg.nodes if "fifo" in node.name)


def test_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A design large enough for some beats alone is predicted as it is from all beats, nearly."""
    graph = _residual()
    whole = to_hardware(graph)
    exact = prediction.predict(whole)
    assert sum(exact.work_cycles.values()) < MOVES
    assert not exact.sketched
    for module in (prediction, depths, deadlock):
        monkeypatch.setattr(module, "MOVES", 0)
    some = to_hardware(graph)
    found = prediction.predict(some)
    assert found.sketched
    assert found.interval_cycles == exact.interval_cycles
    assert found.latency_cycles == pytest.approx(exact.latency_cycles, rel=0.01)
    # Queues are no shorter than those that are known to be enough, and hardly longer.
    assert _depths(whole) * 0.99 <= _depths(some) <= 1.1 * _depths(whole) + 8


def test_queue_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A design that stops is refused from some beats, too."""
    for module in (prediction, depths, deadlock):
        monkeypatch.setattr(module, "MOVES", 0)
    graph = _residual()
    queues = [node.name for node in to_hardware(graph).nodes if "fifo" in node.name]
    with pytest.raises(EmissionError, match="would deadlock"):
        to_hardware(graph, queues=dict.fromkeys(queues, 9))
