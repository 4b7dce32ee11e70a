"""Every cell, by its samples: the beats, the cycles and the room that its class says.

Nobody edits this file to add a cell.
"""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from mase_hw.cells import Cell
from mase_hw.cells import cells as found_cells
from mase_hw.cells._accumulator import Accumulator
from mase_hw.cells._motion import Steps
from mase_hw.cells._netlist import NetlistBuilder
from mase_hw.cells.cat import Merge
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.emit.design import declared_names
from mase_hw.emit.modules import module_texts
from mase_hw.errors import EmissionError
from mase_hw.geometry.beats import Cycles
from tests._tiers import selected
from tests.rtl_bench import FIRST_CYCLE, PRESSURE_MODES, STUCK, Bench, cell_case

INFERENCES = 3


def samples() -> Iterator[tuple[str, Cell]]:
    for cls in found_cells():
        for number, cell in enumerate(cls.samples()):
            ports = (*cell.inputs.values(), *cell.outputs.values())
            if cell.inputs and all(port.fields for port in ports):
                yield f"{cls.__name__}_{number}", cell


CELLS = dict(samples())


def streams(cell: Cell) -> list[str]:
    """Return the inputs that are no constants: those that move with the first, or in turn."""
    given = {port: item.beats for port, item in cell.inputs.items() if item.beats}
    first = next(iter(given.values()))
    alternate = isinstance(cell.motion, Merge)
    return [port for port, beats in given.items() if beats == first or alternate]


def arrivals(cell: Cell) -> dict[str, Cycles]:
    """Return when beats are offered that come one after another."""
    return {
        port: FIRST_CYCLE + np.arange(INFERENCES * cell.inputs[port].beats)
        for port in streams(cell)
    }


@pytest.fixture(scope="module")
def bench(request, tmp_path_factory):
    cases = []
    for name in selected(request, "name", CELLS):
        cell = CELLS[name]
        chance = random.Random(name)
        inputs = {
            port: [chance.getrandbits(item.width_bits) for _ in range(INFERENCES * item.beats)]
            for port, item in cell.inputs.items()
            if item.beats
        }
        cases.append(cell_case(name, cell, inputs))
    return Bench(cases, tmp_path_factory.mktemp("cells"))


@pytest.fixture(scope="module")
def steady(bench):
    return bench.run("none")


@pytest.mark.parametrize("name", CELLS)
def test_results_are_offered_when_the_motion_says(name, steady):
    cell, output = CELLS[name], steady[name]
    assert output.offered == cell.motion.offered(arrivals(cell)).tolist()
    taken = cell.motion.consumed(arrivals(cell))
    assert {port: output.taken[port] for port in taken} == {
        port: times.size for port, times in taken.items()
    }


@pytest.fixture(scope="module", params=[mode for mode in PRESSURE_MODES if mode != "none"])
def mode(request):
    return request.param


@pytest.fixture(scope="module")
def pressed(mode, bench):
    return bench.run(mode)


def test_pressure_changes_no_beat(steady, pressed):
    for name, output in pressed.items():
        assert not output.complaints, output.complaints[0]
        assert output.beats == steady[name].beats, name


@pytest.mark.parametrize("name", CELLS)
def test_beats_move_when_the_motion_says(name, mode, pressed):
    """Whoever pauses. Constants never do, but for those that move with the first input."""
    cell, output = CELLS[name], pressed[name]
    pauses = set(output.moved) - set(streams(cell))
    if pauses and mode != "back_pressure":
        pytest.skip(f"{', '.join(sorted(pauses))} would pause")
    moved = {port: np.array(output.moved[port]) for port in streams(cell)}
    come = {port: cycles[:, 0] for port, cycles in moved.items()}
    found = cell.motion.under_pressure(come, np.array(output.gone))
    assert found.offered.tolist() == output.offered
    for port, cycles in moved.items():
        assert found.consumed[port].tolist() == cycles[:, 1].tolist(), port


@pytest.fixture(scope="module")
def stuck(bench):
    return bench.run(STUCK, timeout_cycles=400)


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_holds_what_its_room_says_when_nothing_leaves(name, stuck):
    """That decides which designs hang. What has room for an inference may have room for more."""
    cell = CELLS[name]
    # What a round waits for counts as taken when the round begins.
    awaited = cell.motion.awaited if isinstance(cell.motion, Merge) else ""
    for port in set(streams(cell)) - {awaited}:
        room = cell.motion.room(port, cell.inputs[port].beats)
        held = int((np.maximum.accumulate(room) < 0).sum())
        # The stages of an accumulator move as one and hold more while beats come close together.
        more = cell.terms + cell.in_lanes if isinstance(cell, Accumulator) else 0
        taken = stuck[name].taken[port]
        assert held <= taken <= held + more if held < room.size else taken >= held


def names_of(cell: Cell) -> dict[str, set[str]]:
    ports = {"clk", "rst", *cell.signals, *cell.unread}
    for port, item in {**cell.inputs, **cell.outputs}.items():
        suffixes = [""] if item.packed else [part.suffix for part in item.fields]
        ports |= {f"{port}{suffix}" for suffix in (*suffixes, *item.optional, "_valid", "_ready")}
    return {"port": ports, "parameter": {*cell.arguments, *cell.images}}


@pytest.mark.parametrize("name", CELLS)
def test_the_module_has_the_ports_and_parameters_of_its_cell(name):
    cell = CELLS[name]
    text = module_texts([cell])[cell.module]
    declared, said = declared_names(cell.module, text), names_of(cell)
    assert said["port"] == declared["port"]
    assert said["parameter"] <= declared["parameter"]


def test_every_cell_has_samples_or_a_reason():
    """What is left out has no stream of its own to watch, or runs in whole designs alone."""
    without = {cls.__name__ for cls in found_cells() if not cls.samples()}
    assert without <= {
        "AxiReadPort",
        "AxiSource",
        "LoopExit",
        "LayerSource",
        "RamSource",
        "RomSource",
        "StreamFork",
    }


def test_a_netlist_refuses_a_port_that_a_cell_lacks():
    queue = next(cell for cell in CELLS.values() if isinstance(cell, StreamFifo))
    net = NetlistBuilder({"data_in_0": queue.port})
    wire = net.input("data_in_0")
    with pytest.raises(EmissionError, match="has the inputs data_in; connected are data"):
        net.add(queue, data=wire)
    with pytest.raises(EmissionError, match="connected are none"):
        net.add(queue)
    net.add(queue, data_in=wire)
    with pytest.raises(EmissionError, match="two cells"):
        net.add(queue, data_in=wire)


def test_steps_hold_as_many_beats_as_they_take_cycles_and_one_more():
    assert Steps(3).room("", 5).tolist() == [-4, -3, -2, -1, 0]
    assert Steps(0).room("", 3).tolist() == [0, 1, 2]
