"""What is proved of an emitted design: its cells with their parameters, and what they are together.

The argument is in README.md beside the package.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from mase_hw.cells import Cell
from mase_hw.cells.composite import Composite
from mase_hw.cells.loop_entry import LoopEntry
from mase_hw.emit.build import build_design
from mase_hw.emit.manifest import Manifest
from mase_hw.emit.modules import module_texts
from mase_hw.emit.project import load_graph
from mase_hw.errors import EmissionError
from mase_hw.graph import MaseGraph
from mase_hw.passes.hardware.progress import verify_progress_analysis_pass
from mase_hw.proof._parts import part_of
from mase_hw.proof._prove import (
    LIMIT_SECONDS,
    described,
    is_subject,
    prove_cell,
    prove_part,
    shortest,
)
from mase_hw.proof._report import ProofReport, ProofRow
from mase_hw.proof._solver import Verdict, solver
from mase_hw.proof._together import Advance, together

# The claim about what the cells are together, and that about what has no proof of its own.
NO_DEADLOCK, OTHERS = "no deadlock, no queue too short", "stream properties"


def prove_design(
    folder: Path,
    *,
    limit_seconds: float = LIMIT_SECONDS,
    samples: int | None = None,
    progress: Advance | None = None,
) -> ProofReport:
    """Prove the properties of the cells of an emitted design, with the modules that lie in it.

    Args:
        folder: the project; modules that were edited are proved as they are.
        limit_seconds: for each search of a proof, and again of a fault where there is no proof.
        samples: how many different cells are proved; None for all.
        progress: called with how many cells are done, and how many there are.

    Raises:
        EmissionError: for a folder that is no project, or whose cells wait for each other.
        ProofError: when a module cannot be read.
        ToolError: when the solver is missing, with the command that installs it.
    """
    solver()
    mg = load_graph(folder)[0]
    manifest = Manifest.load(folder)
    edited = tuple(manifest.changed(folder)) if manifest else ()
    instances = _cells(mg)
    subjects = [cell for cell in instances if part_of(cell) or is_subject(cell)]
    others = [cell for cell in instances if cell not in subjects]
    loops = any(isinstance(cell, LoopEntry) for cell in instances)

    def proved(cell: Cell) -> Iterator[ProofRow]:
        texts = _texts(folder, [cell])
        nodes = ", ".join(instances[cell])
        part = part_of(cell)
        rows = (
            prove_part(part, limit_seconds=limit_seconds, texts=texts)
            if part
            else prove_cell(shortest(cell), limit_seconds=limit_seconds, texts=texts)
        )
        for row in rows:
            yield replace(row, parameters=f"{nodes}: {row.parameters}")

    proofs = [partial(proved, cell) for cell in subjects[:samples]]
    rows = [_composition(mg, loops), *together(proofs, progress)]
    for cell in [*others, *subjects[len(subjects[:samples]) :]]:
        label = f"{', '.join(instances[cell])}: {described(cell)}"
        rows.append(ProofRow(type(cell).__name__, label, OTHERS, Verdict("simulated", 0), 0.0))
    return ProofReport(tuple(rows), edited)


def _cells(mg: MaseGraph) -> dict[Cell, list[str]]:
    """Return the different cells of a design, with the instances of each."""
    instances: dict[Cell, list[str]] = {}
    cell_of: dict[object, Cell] = {}
    for instance in build_design(mg).instances:
        whole = instance.cell
        inner = whole.netlist.flat.cells.values() if isinstance(whole, Composite) else (whole,)
        for cell in inner:
            key = type(cell), tuple(sorted(map(str, cell.parameters.items()))), cell.motion
            cell = cell_of.setdefault(key, cell)
            instances.setdefault(cell, [])
            if instance.name not in instances[cell]:
                instances[cell].append(instance.name)
    return instances


def _texts(folder: Path, cells: Iterable[Cell]) -> dict[str, str]:
    """Return the modules of cells as they lie in the project."""
    texts = {}
    for name in module_texts(cells):
        path = folder / "rtl" / f"{name}.sv"
        try:
            texts[name] = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise EmissionError(f"{path} cannot be read: {error}") from error
    return texts


def _composition(mg: MaseGraph, loops: bool) -> ProofRow:
    """Check the premises of freedom from deadlock again, on the graph as it was emitted.

    Args:
        mg: the graph.
        loops: whether layers share their hardware, so that beats go round.

    Raises:
        EmissionError: naming the cells that wait for each other.
    """
    start = time.monotonic()
    told = verify_progress_analysis_pass(mg)[1]
    label = f"{told['events']} transfers ordered"
    if told["sampled"]:
        label += ", of some beats of an inference"
    if loops:
        label += ", of layers that share hardware round by round"
    verdict = Verdict("simulated" if told["sampled"] or loops else "ordered", 0)
    return ProofRow("the design", label, NO_DEADLOCK, verdict, time.monotonic() - start)
