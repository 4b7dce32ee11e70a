"""Every cell moves codes, or is compared with a definition written apart from it."""

from mase_hw.cells import Cell, cells
from mase_hw.cells.axi_read_port import AxiReadPort
from mase_hw.cells.axi_source import AxiSource
from mase_hw.cells.composite import Composite
from mase_hw.cells.layer_source import LayerSource
from mase_hw.cells.loop_exit import LoopExit
from mase_hw.cells.previous import Previous
from mase_hw.cells.ram_source import RamSource
from mase_hw.cells.rom_source import RomSource
from mase_hw.cells.stream_fork import StreamFork
from mase_hw.proof._prove import recorded
from tests.cells import (
    test_exhaustive,
    test_exhaustive_block_sums,
    test_exhaustive_blocks,
    test_exhaustive_cache,
    test_exhaustive_functions,
    test_exhaustive_norms,
    test_exhaustive_softmax,
)

COMPARED = (
    test_exhaustive, test_exhaustive_block_sums, test_exhaustive_blocks, test_exhaustive_cache,
    test_exhaustive_functions, test_exhaustive_norms, test_exhaustive_softmax,
)  # fmt: skip
# Constants, memories, ports and what is made of cells; others say where their codes come from.
MOVES = {
    AxiReadPort, AxiSource, Composite, LayerSource, LoopExit, Previous, RamSource, RomSource,
    StreamFork,
}  # fmt: skip


def compared_cells() -> set[type[Cell]]:
    names = [item for module in COMPARED for item in vars(module).values()]
    return {item for item in names if isinstance(item, type) and issubclass(item, Cell)}


def test_every_cell_that_computes_is_compared_for_all_inputs():
    moves = MOVES | {cell for cell in cells() if cell.origins is not Cell.origins}
    assert compared_cells() == set(cells()) - moves


def test_the_modules_are_those_that_were_compared():
    from tests.cells.compared import digests

    assert digests() == recorded(), "run python -m tests.cells.compared"
