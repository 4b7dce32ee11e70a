"""Proofs of cells: each property that follows from what a cell says of itself.

Modules whose results were compared with a definition of their own for all inputs.

`compared.json` has a digest of each with its inner modules, comments and checks left out; `python
-m tests.cells.compared` writes it where every comparison passes.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from importlib.resources import files
from math import gcd
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mase_hw.cells import PARAMETER, Cell, cells
from mase_hw.emit.modules import module_texts, with_inner_texts
from mase_hw.errors import ConfigError
from mase_hw.formats import Encoding
from mase_hw.proof._copies import COPIES
from mase_hw.proof._harness import INFERENCES, TOP, Proof
from mase_hw.proof._parts import Part, parts
from mase_hw.proof._report import DATA, ProofReport, ProofRow
from mase_hw.proof._solver import (
    INDUCTION_CYCLES,
    INNER,
    REACH,
    Circuit,
    Verdict,
    long_search,
    solver,
)
from mase_hw.proof._together import Advance, together
from mase_hw.registry import nearest
from mase_hw.timing.bounds import streams

LIMIT_SECONDS = 60.0

# These speak of data, what others speak of is control.
DATA_CLAIMS = ("stable", "right_")
# Two copies are equal after one cycle, or it takes clauses; they are run for less long.
START_CYCLES, START_RUN = (1,), 120
# All assertions at once are worth as many long searches as this.
INDUCTION_SEARCHES = 2
# Most cycles of an induction: a bound of time that is not longer holds after so many.
LONGEST_INDUCTION = 80


def prove(
    name: str | None = None,
    *,
    limit_seconds: float = LIMIT_SECONDS,
    samples: int | None = None,
    start: bool = False,
    progress: Advance | None = None,
) -> ProofReport:
    """Prove the properties of a cell, or of all, over the parameters that its class gives.

    Args:
        name: of the cell's class or of its module, or of a part (`Fork`, `RomSource`, ...); None
            for all.
        limit_seconds: for each search of a proof, and again of a fault where there is no proof. A
            search in all states, and induction of all properties at once, may take several times
            as long.
        samples: how many sets of parameters of a cell are proved; None for all.
        start: prove of cells, in place of all else, that a reset is right in any state.
        progress: called with how many sets of parameters are done, and how many there are.

    Raises:
        ConfigError: for an unknown cell.
        ProofError: when a module cannot be read.
        ToolError: when the solver is missing, with the command that installs it.
    """
    solver()
    proof_subjects: list[Cell | Part] = []
    for cls in _chosen(name):
        if not issubclass(cls, Part):
            proof_subjects += subjects(cls)[:samples]
        elif not start:
            proof_subjects += cls.proofs()[:samples]
    kinds = [_prover(item, start) for item in proof_subjects]
    proofs = [
        partial(kind, item, limit_seconds=limit_seconds)
        for kind, item in zip(kinds, proof_subjects, strict=True)
    ]
    return ProofReport(tuple(together(proofs, progress)))


def _prover(item: Cell | Part, start: bool) -> Callable[..., Iterator[ProofRow]]:
    if isinstance(item, Part):
        return prove_part
    return prove_start if start else prove_cell


def _chosen(name: str | None) -> Iterable[type[Cell] | type[Part]]:
    by_class: dict[str, type[Cell] | type[Part]] = {cls.__name__: cls for cls in parts()}
    by_module: dict[str, type[Cell] | type[Part]] = {cls.module: cls for cls in parts()}
    for cls in cells():
        if examples := subjects(cls):
            by_class[cls.__name__] = cls
            by_module[examples[0].module] = cls
    if name is None:
        return by_class.values()
    if name not in {**by_class, **by_module}:
        raise ConfigError(
            f"no cell that can be proved is called {name!r}; {nearest(name, by_class)}"
        )
    return [{**by_class, **by_module}[name]]


def subjects(cls: type[Cell]) -> list[Cell]:
    """Return the cells of a class whose properties are proved: those that take and send beats."""
    return [shortest(cell) for cell in cls.proofs() if is_subject(cell)]


def is_subject(cell: Cell) -> bool:
    """True if a cell takes and sends beats."""
    ports = (*cell.inputs.values(), *cell.outputs.values())
    return bool(cell.inputs) and len(cell.outputs) == 1 and all(port.fields for port in ports)


def prove_cell(
    cell: Cell,
    *,
    limit_seconds: float = LIMIT_SECONDS,
    texts: Mapping[str, str] | None = None,
) -> Iterator[ProofRow]:
    """Yield what becomes of each property of a cell.

    Args:
        cell: the cell.
        limit_seconds: for each search.
        texts: modules in place of those of the library, by name.
    """
    label = described(cell)
    with TemporaryDirectory(prefix="mase_hw_proof_") as scratch:
        folder = Path(scratch)
        proof = Proof(cell, _images(cell, folder))
        sources = {**module_texts([cell]), **(texts or {}), TOP: proof.text}
        waits = {proof.late, *(port.wait for port in proof.inputs)}
        longer = {wait + 2 for wait in waits if wait + 2 <= LONGEST_INDUCTION}
        cycles = sorted({*INDUCTION_CYCLES, *longer})
        yield from _solved(type(cell).__name__, label, sources, folder, limit_seconds, cycles)
        if not proof.spots:
            modules = {name: text for name, text in sources.items() if name != TOP}
            verdict = compared(cell.module, modules)
            yield ProofRow(type(cell).__name__, label, DATA, verdict, 0.0)


def prove_start(
    cell: Cell, *, limit_seconds: float = LIMIT_SECONDS, texts: Mapping[str, str] | None = None
) -> Iterator[ProofRow]:
    """Yield whether a reset is right in any state of a cell, as `prove_cell` does.

    Two copies that are reset together show the same ever after, whatever was in them.
    """
    with TemporaryDirectory(prefix="mase_hw_proof_") as scratch:
        folder = Path(scratch)
        proof = Proof(cell, _images(cell, folder))
        sources = {**module_texts([cell]), **(texts or {}), TOP: proof.start_text}
        name, label = type(cell).__name__, described(cell)
        rows = _solved(name, label, sources, folder, limit_seconds, start=True)
        yield from (row for row in rows if not row.claim.startswith(COPIES))


def _images(cell: Cell, folder: Path) -> dict[str, str]:
    """Write the memory images of a cell; return their files by parameter."""
    files = {}
    for parameter, (_, image) in cell.images.items():
        files[parameter] = f"{parameter}.mem"
        words = "".join(f"{word:x}\n" for word in image.words)
        (folder / files[parameter]).write_text(words)
    return files


def prove_part(
    part: Part, *, limit_seconds: float = LIMIT_SECONDS, texts: Mapping[str, str] | None = None
) -> Iterator[ProofRow]:
    """Yield what becomes of each property of a part, as `prove_cell` does."""
    with TemporaryDirectory(prefix="mase_hw_proof_") as scratch:
        for file, words in part.images.items():
            Path(scratch, file).write_text(words)
        sources = {**with_inner_texts([part.module], texts or {}), TOP: part.text}
        name = type(part).__name__
        yield from _solved(name, part.described, sources, Path(scratch), limit_seconds)


def _solved(
    cell: str,
    label: str,
    sources: Mapping[str, str],
    folder: Path,
    limit_seconds: float,
    cycles: Sequence[int] = INDUCTION_CYCLES,
    *,
    start: bool = False,
) -> Iterator[ProofRow]:
    """Yield what becomes of each assertion of a module with its environment."""
    for name, text in sources.items():
        (folder / f"{name}.sv").write_text(text)
    circuit = Circuit([f"{name}.sv" for name in sources], TOP, folder)
    claims = [name for name in circuit.assertions if not name.startswith(REACH)]
    control = [name for name in claims if not name.startswith(DATA_CLAIMS)]
    circuit.run(control, *((START_RUN,) if start else ()))
    data = [name for name in claims if name not in control]
    seconds = INDUCTION_SEARCHES * long_search(limit_seconds)
    circuit.induce(control, data, seconds, START_CYCLES if start else cycles)
    for name in _ordered(circuit.assertions):
        began = time.monotonic()
        verdict = circuit.solve(name, limit_seconds)
        if name.startswith(REACH):
            verdict = _reached(verdict)
        yield ProofRow(cell, label, _spoken(name), verdict, time.monotonic() - began)


def _ordered(names: Iterable[str]) -> list[str]:
    """Return assertions with what helps others first: inner ones, then counts, then data."""
    ranks = (*INNER, "stable", "not_invented", "offered", "", "right_")

    def rank(name: str) -> int:
        return next(
            (place for place, start in enumerate(ranks) if start and name.startswith(start)), 6
        )

    return sorted(names, key=lambda name: (name.startswith(REACH), rank(name), name))


def _spoken(name: str) -> str:
    return name.removeprefix("dut.").replace("_", " ")


def _reached(verdict: Verdict) -> Verdict:
    """Verdict of a search for a run, which must find one."""
    if verdict.status == "refuted":
        return replace(verdict, status="reached", fault=())
    return replace(verdict, status="vacuous") if verdict.status == "proved" else verdict


def described(cell: Cell) -> str:
    """Return the parameters of a cell in one line."""
    words = [f"{name.lower()} {_short(value)}" for name, value in cell.parameters.items()]
    return ", ".join(words)


def _short(value: Any) -> str:
    if isinstance(value, Encoding):
        return value.expression.removeprefix("mase_pkg::")
    return str(int(value)) if isinstance(value, bool | int) else str(value.value)


def shortest(cell: Cell) -> Cell:
    """Return the cell with the fewest beats of an inference that move as its own do."""
    if not any(
        item.name == "beats" and not item.metadata.get(PARAMETER, True)
        for item in fields(cell)  # type: ignore[arg-type]
    ):
        return cell
    ports = (*cell.inputs.values(), *cell.outputs.values())
    common = gcd(*(port.beats for port in ports if port.beats))
    for count in range(common, 1, -1):
        if common % count == 0:
            less: Cell = replace(cell, beats=cell.beats // count)  # type: ignore[attr-defined,type-var]
            if _alike(less, cell):
                return less
    return cell


def _alike(less: Cell, cell: Cell) -> bool:
    """True if the motion of fewer beats is that of more, from the start."""
    for port in streams(cell):
        few, many = less.inputs[port].beats, cell.inputs[port].beats
        for needed, small, large in (
            (True, less.motion.needs, cell.motion.needs),
            (False, less.motion.room, cell.motion.room),
        ):
            try:
                needs, often = small(port, few), small(port, INFERENCES * few)
            except (IndexError, ValueError):
                return False
            if needs.max(initial=0) >= few or not np.array_equal(
                large(port, many)[: needs.size], needs
            ):
                return False
            # An inference ends where what repeats does, such as a row.
            again = np.arange(INFERENCES)[:, None] * few + needs
            if needed and not np.array_equal(often, again.reshape(-1)):
                return False
    return True


RECORD = "compared.json"
# What the circuit does not consist of.
_LEFT_OUT = re.compile(r"//[^\n]*|`ifdef MASE_CHECKS\n.*?`endif[^\n]*\n", re.DOTALL)


def digest(texts: Mapping[str, str]) -> str:
    """Return a digest of modules by name, whatever their layout and comments."""
    words = {name: _LEFT_OUT.sub("", text).split() for name, text in texts.items()}
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]


@cache
def recorded() -> Mapping[str, str]:
    """Return the digest of every module that was compared, by name."""
    digests: dict[str, str] = json.loads(files(__package__).joinpath(RECORD).read_text())
    return digests


def compared(module: str, texts: Mapping[str, str]) -> Verdict:
    """Verdict on the function of a module.

    Args:
        module: its name.
        texts: its text and those of all that it names.
    """
    recorded_digest = recorded().get(module)
    if recorded_digest is None:
        return Verdict("simulated", 0)
    return Verdict("compared" if digest(texts) == recorded_digest else "unlike", 0)
