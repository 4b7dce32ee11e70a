"""`python -m tests.cells.compared`: compare cells for all inputs, then record their modules."""

import json
import sys
from pathlib import Path

import pytest

import mase_hw.proof
from mase_hw.cells import cells
from mase_hw.emit.modules import module_texts
from mase_hw.proof._prove import RECORD, digest
from tests.cells.test_exhaustive_cells import compared_cells


def digests() -> dict[str, str]:
    found = [cell for cls in cells() if cls in compared_cells() for cell in cls.proofs()]
    return {cell.module: digest(module_texts([cell])) for cell in found}


def main() -> int:
    """Return the status of the comparisons; record the modules where they pass."""
    chosen = ["-k", "exhaustive and not were_compared", "-m", "full or not full"]
    status = pytest.main([str(Path(__file__).parent), *chosen, "-q"])
    if not status:
        path = Path(next(iter(mase_hw.proof.__path__))) / RECORD
        path.write_text(json.dumps(digests(), indent=2, sort_keys=True) + "\n")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
