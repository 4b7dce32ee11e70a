"""Every cell by itself: its module has its ports and parameters, and moves beats as it says.

Nobody edits this file to add a cell: it runs `Cell.samples`, all side by side in one bench.
"""

from __future__ import annotations

import numpy as np
import pytest

from mase_hw.cells import Cell, cells
from mase_hw.cells._motion import Steps
from mase_hw.cells._netlist import NetlistBuilder
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.emit.library import declared_names, module_files
from mase_hw.errors import EmissionError
from tests.rtl_bench import PRESSURE_MODES, Bench, cell_case

INFERENCES = 3
SAMPLES = {
    f"{cls.__name__.lower()}_{number}": cell
    for cls in cells()
    for number, cell in enumerate(cls.samples())
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    cases = [cell_case(name, cell, INFERENCES) for name, cell in SAMPLES.items()]
    return Bench(cases, tmp_path_factory.mktemp("cells"))


@pytest.fixture(scope="module")
def free(bench: Bench) -> dict[str, list[int]]:
    """The beats of every sample when nothing stalls."""
    return {name: output.beats for name, output in bench.run("none").items()}


def names_of(cell: Cell) -> dict[str, set[str]]:
    ports = {"clk", "rst", *cell.signals, *cell.unread}
    for port, item in {**cell.inputs, **cell.outputs}.items():
        suffixes = [""] if item.packed else [part.suffix for part in item.fields]
        ports |= {f"{port}{suffix}" for suffix in (*suffixes, *item.optional, "_valid", "_ready")}
    return {"port": ports, "parameter": set(cell.parameters) | set(cell.images)}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_module_has_the_ports_and_parameters_of_its_cell(name: str) -> None:
    cell = SAMPLES[name]
    file = next(path for path in module_files([cell]) if path.stem == cell.module)
    declared, said = declared_names(file), names_of(cell)
    assert said["port"] == declared["port"]
    assert said["parameter"] <= declared["parameter"]


@pytest.mark.parametrize("mode", PRESSURE_MODES)
def test_beats_are_the_same_under_every_pressure(
    bench: Bench, free: dict[str, list[int]], mode: str
) -> None:
    """No beat is lost, doubled or changed, and what is offered stays until it is taken."""
    for name, output in bench.run(mode).items():
        ((_, made),) = SAMPLES[name].outputs.items()
        assert output.complaints == [], name
        assert len(output.beats) == made.beats * INFERENCES, name
        assert output.beats == free[name], name


@pytest.mark.parametrize("name", SAMPLES)
def test_beats_move_when_the_cell_says(bench: Bench, name: str) -> None:
    """Inputs that are always there and outputs that are always taken, from idle."""
    cell = SAMPLES[name]
    found = bench.run("none")
    arrivals = {
        port: np.arange(item.beats * INFERENCES) for port, item in cell.inputs.items() if item.beats
    }
    # What comes once for a result only, such as a bias, is there in time.
    longest = max(len(cycles) for cycles in arrivals.values())
    together = {port: cycles for port, cycles in arrivals.items() if len(cycles) == longest}
    predicted = cell.motion.offered(together)
    queue = next(key for key, item in SAMPLES.items() if isinstance(item, StreamFifo))
    start = found[queue].offered[0] - 1
    assert [cycle - start for cycle in found[name].offered] == predicted.tolist()


def test_every_cell_has_samples_or_a_reason() -> None:
    """What is left out has no stream of its own to watch, or runs in whole designs alone."""
    without = {cls.__name__ for cls in cells() if not cls.samples()}
    assert without <= {"AxiReadPort", "AxiSource", "RomSource", "StreamFork"}


def test_a_netlist_refuses_a_port_that_a_cell_lacks() -> None:
    queue = next(cell for cell in SAMPLES.values() if isinstance(cell, StreamFifo))
    net = NetlistBuilder({"data_in_0": queue.port})
    wire = net.input("data_in_0")
    with pytest.raises(
        EmissionError, match="StreamFifo has the inputs data_in; connected are data"
    ):
        net.add(queue, data=wire)
    with pytest.raises(EmissionError, match="connected are none"):
        net.add(queue)
    net.add(queue, data_in=wire)
    with pytest.raises(EmissionError, match="two cells"):
        net.add(queue, data_in=wire)


def test_steps_hold_as_many_beats_as_they_take_cycles() -> None:
    assert Steps(3).room("", 5).tolist() == [-3, -2, -1, 0, 1]
    assert Steps(3, 1).room("", 5).tolist() == [-1, 0, 1, 2, 3]
