"""Counts that a cell and its module both know: the module refuses any other than its own."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from mase_hw.cells import Cell
from mase_hw.cells import cells as found_cells
from mase_hw.cells._encoder import cast_stages, kept_bits
from mase_hw.formats import family_of, formats
from tests.rtl_bench import Case, call, cell_case, environment, lint, verilator_command

CELLS = {cls.__name__: cls.samples()[0] for cls in found_cells() if any(map(bool, cls.samples()))}
CELLS = {name: cell for name, cell in CELLS.items() if cell.latencies}


def case_of(cell: Cell, **latencies: int) -> Case:
    inputs = {port: [0] * item.beats for port, item in cell.inputs.items() if item.beats}
    case = cell_case(type(cell).__name__, cell, inputs)
    return replace(case, parameters={**case.parameters, **latencies})


def test_casts_and_windows_say_theirs():
    assert {"BinaryBlocks", "BlockAccumulate", "Requantize", "SlidingWindow"} <= CELLS.keys()


@pytest.mark.parametrize("name", CELLS)
def test_a_module_refuses_another_latency(name, tmp_path):
    cell = CELLS[name]
    for parameter, cycles in cell.latencies.items():
        with pytest.raises(AssertionError, match=rf"{cycles + 1}; .* takes|STAGES is"):
            lint(case_of(cell, **{parameter: cycles + 1}), tmp_path)


def test_the_package_counts_cycles_and_bits_as_the_cells_do(tmp_path):
    encodings = [
        number.encoding
        for cls in formats().values()
        if family_of(cls) is not None
        for number in (cls(), cls.fit(-3.0, 2.0))
    ]
    checks = [
        f"  if (kept_bits(mase_pkg::format_t'({item.expression})) != {kept_bits(item)}\n"
        f"      || cast_stages({item.expression}.encoding, {item.width}) != {cast_stages(item)})\n"
        f'    $error("{item} is counted otherwise");\n'
        for item in dict.fromkeys(encodings)
    ]
    assert len(checks) > 15
    top = tmp_path / "package_top.sv"
    for wrong in (False, True):
        body = "".join(checks) + '  if (kept_bits(\'0) != 0) $error("a fault is found");\n' * wrong
        top.write_text(f"module package_top import mase_pkg::*; ();\n{body}endmodule\n")
        command = verilator_command("--lint-only", "--top-module", "package_top", str(top))
        with pytest.raises(AssertionError, match="a fault is found") if wrong else nullcontext():
            call(command, tmp_path, environment())
