"""Components of cells against what Yosys counted of them, and with faults: nothing is synthesized.

Counts are those of `tests/bench/fit.json`, which `python -m tests.bench.refit` measures. Nobody
edits this file to add a cell.
"""

import pytest

from mase_hw.cells import Components
from mase_hw.cells import cells as found_cells
from mase_hw.hardware.estimate import Estimate, of_cell, of_components
from tests.bench.fit import counted, key_of

COUNTS = counted()
CELLS = {
    f"{cls.__name__} {number}": cell
    for cls in found_cells()
    for number, cell in enumerate(cls.samples())
}
# How far an estimate may be: a share of the count, below and above, or a few. Mapping to look-up
# tables is heuristic, and of samples with short tables and small numbers synthesis leaves out more
# than of real ones; a few of next to nothing would be everything.
BELOW, ABOVE = 0.35, 0.9
FEW = {"lut": 15, "ff": 30, "carry": 16, "dsp": 2, "bram": 0.5}


def far(found: Estimate, key: str) -> list[str]:
    rows = {name: (getattr(found, name), float(COUNTS[key][name])) for name in FEW}
    return [
        f"{name}: {estimated:g} estimated, {count:g} counted"
        for name, (estimated, count) in rows.items()
        if not -_limit(name, count, BELOW) <= estimated - count <= _limit(name, count, ABOVE)
    ]


def _limit(name: str, count: float, share: float) -> float:
    few = min(FEW[name], count / 2 + 1) if name in ("lut", "ff") else FEW[name]
    return max(few, share * count)


@pytest.mark.parametrize("name", CELLS)
def test_the_estimate_of_a_sample_is_near_its_count(name):
    found, key = of_cell(CELLS[name]), key_of(CELLS[name])
    if key not in COUNTS:
        assert found.lut + found.ff, f"{name} is made of nothing"
        pytest.skip("a new cell: python -m tests.bench.refit counts it")
    assert far(found, key) == []


MADE = [
    cls
    for cls in {type(cell): None for cell in CELLS.values()}
    # What is wires alone has no components to miss.
    if any(COUNTS.get(key_of(cell), {}).get("lut") for cell in CELLS.values() if type(cell) is cls)
]


@pytest.mark.parametrize("wrong", [lambda cell: Components(()), lambda cell: cell.components * 3])
@pytest.mark.parametrize("cls", MADE, ids=lambda cls: cls.__name__)
def test_missing_and_repeated_components_are_seen(cls, wrong):
    """In one sample of a cell at least: some are too small for any limit."""
    samples = [cell for cell in CELLS.values() if type(cell) is cls]
    assert any(far(of_components(wrong(cell)), key_of(cell)) for cell in samples)
