"""Inferences that follow each other alike: the others move as all of them do."""

import numpy as np
import pytest

from mase_hw.cells import Netlist
from mase_hw.cells._motion import Queue, Replay, Steps
from mase_hw.timing.pace import Pace, repeated
from mase_hw.timing.stages import NodeStages, Stages, Stream
from tests.timing.cells import TIMED
from tests.timing.figure import FILE, curves, residual

INFERENCES = 12


def _alike(beats: int, interval: int, generator: np.random.Generator) -> np.ndarray:
    """Return times of beats that come within an interval, in the first inference otherwise."""
    places = np.sort(generator.integers(0, interval, size=beats))
    starts = np.arange(INFERENCES)[:, None] * interval
    times = starts + places
    times[0] = np.sort(generator.integers(0, interval, size=beats))
    return times.reshape(-1)


@pytest.mark.parametrize("pressure", [None, 1, 3])
def test_some_inferences_tell_of_all(pressure):
    for _, netlist in TIMED:
        assert_some_tell_of_all(netlist, pressure)


def assert_some_tell_of_all(netlist: Netlist, pressure: int | None) -> None:
    generator = np.random.default_rng(0)
    interval = 3 * netlist.busy_cycles + 5
    arrivals = {
        name: _alike(port.beats, interval, generator) for name, port in netlist.inputs.items()
    }
    results = netlist.port(netlist.outputs["data_out_0"]).beats
    late = interval // (pressure or 1)
    departures = None if pressure is None else _alike(results, interval, generator) + late
    stages = NodeStages(netlist, arrivals)
    consumed, offered = stages.run(arrivals, departures)
    expected, all_offered = NodeStages(netlist, arrivals).simulate(arrivals, departures)
    assert np.array_equal(offered, all_offered), netlist.main
    for name, times in expected.items():
        assert np.array_equal(consumed[name], times), (netlist.main, name)


def test_most_cells_are_simulated_in_part():
    reach = [NodeStages(netlist, netlist.inputs).reach for _, netlist in TIMED]
    assert min(reach) == 1
    assert sum(number < INFERENCES // 2 for number in reach) > len(reach) / 2


@pytest.mark.parametrize(
    ("motion", "beats", "reach"),
    [
        (Steps(3), 100, 1),
        (Steps(3), 5, 4),
        (Queue(250), 100, 3),
        (Replay(100, 4), 100, 2),
        (Replay(10, 4), 100, 1),
    ],
    ids=str,
)
def test_reach(motion, beats, reach):
    stages, stream = Stages(), Stream()
    stages.add(motion, {"": stream})
    assert stages.reach({stream: beats}) == reach


def test_pace():
    starts = np.array([0, 7, 17, 27, 37])[:, None]
    times = (starts + np.array([1, 2, 5])).reshape(-1)
    pace = Pace.of([times, times + 3], 5)
    assert pace is not None
    assert pace.interval == 10
    assert np.array_equal(pace.go_on(3, pace.first(3, times)), times)
    assert Pace.of([times, np.arange(15)], 5) is None
    assert Pace.of([times[:6]], 2) is None


def test_times_that_are_known_already_are_cut():
    assert repeated(np.array([0, 1, 5, 6]), 2, 9, 4).tolist() == [0, 1, 5, 6, 14, 15, 23, 24]
    assert repeated(np.array([0, 1, 5, 6]), 2, 9, 1).tolist() == [0, 1]


def test_the_depth_is_the_largest_occupancy():
    mg = residual()
    found = curves(mg)
    come, departures = found["x_fifo"], found["add"]
    held = np.searchsorted(come, departures, side="right") - np.arange(departures.size)
    depth = mg.node("x_fifo").args[1]
    assert depth == held.max()
    page = FILE.parent.with_name("README.md").read_text()
    assert f"{depth} beats, in cycle {departures[held.argmax()]}." in page
    late = found["second"][0] - come[0], departures[0] - found["second"][0]
    assert "`second` {} cycles later, and `add` another {}:".format(*late) in page
    assert f"{depth} beats: the depth" in FILE.read_text()
