"""Latencies that a cell and its module both know: the module refuses any other than its own."""

from dataclasses import replace
from pathlib import Path

import pytest

from mase_hw.cells import Cell
from mase_hw.cells import cells as found_cells
from tests.rtl_bench import Case, cell_case, lint

CELLS = {cls.__name__: cls.samples()[0] for cls in found_cells() if any(map(bool, cls.samples()))}
CELLS = {name: cell for name, cell in CELLS.items() if cell.latencies}


def case_of(cell: Cell, **latencies: int) -> Case:
    inputs = {port: [0] * item.beats for port, item in cell.inputs.items() if item.beats}
    case = cell_case(type(cell).__name__, cell, inputs)
    return replace(case, parameters={**case.parameters, **latencies})


def test_casts_and_windows_say_theirs() -> None:
    assert {"BinaryBlocks", "BlockAccumulate", "Requantize", "SlidingWindow"} <= CELLS.keys()


@pytest.mark.parametrize("name", CELLS)
def test_a_module_refuses_another_latency(name: str, tmp_path: Path) -> None:
    cell = CELLS[name]
    for parameter, cycles in cell.latencies.items():
        with pytest.raises(AssertionError, match=rf"{cycles + 1}; .* takes|STAGES is"):
            lint(case_of(cell, **{parameter: cycles + 1}), tmp_path)
