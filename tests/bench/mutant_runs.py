"""What becomes of a mutated design: the checks of `simulate`, then proofs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Literal

from mase_hw._cache import CACHE_VARIABLE
from mase_hw._kinds import Table
from mase_hw.errors import MaseError, ProofError, SimulationError
from tests.bench.mutant_designs import Source
from tests.bench.mutations import (
    CHOICE_FILE,
    PACKAGE,
    Mutation,
    invert,
    replaced,
    sources,
    write_combined,
)

if TYPE_CHECKING:
    from mase_hw.proof import Machines
    from mase_hw.sim.engine import RunRequest

Ending = Literal[
    "mismatch",
    "stall",
    "protocol",
    "cycles",
    "stopped",
    "proof",
    "equivalent",
    "refused",
    "left",
    "unseen",
]
KILLED: tuple[Ending, ...] = ("mismatch", "stall", "protocol", "cycles", "stopped", "proof")
# Searches of an equivalence; of a property of a cell, and of all cells.
EQUIVALENCE_SECONDS = 20.0
SEARCH_SECONDS = 3.0
PROOF_SECONDS = 30.0


ERROR_BEAT = "error_beat"


@dataclass(frozen=True)
class Run:
    """A run of `mase-hw simulate`: its options."""

    samples: int
    stall: float = 0.0
    stalled: str = "both"
    seed: int = 0
    memory: tuple[tuple[str, int], ...] = ()
    resets: int = 0

    @property
    def reports(self) -> bool:
        """Whether the design has to report an error of the memory."""
        return ERROR_BEAT in dict(self.memory)

    def __str__(self) -> str:
        """Return the options as a command has them."""
        words = [f"--samples {self.samples} --seed {self.seed}"]
        if self.stall:
            words.append(f"--stall {self.stall} --stalled {self.stalled}")
        words += [f"--resets {self.resets}"] if self.resets else []
        words += [f"memory {key} {value}" for key, value in self.memory]
        return ", ".join(words)


RUNS = (
    Run(40),
    Run(40, 0.3, seed=1),
    Run(40, 0.7, "outputs", 2),
    Run(40, 0.7, "inputs", 3),
    Run(40, 0.9, seed=4),
    Run(400, seed=5),
    Run(8, 0.3, seed=8, resets=60),
    Run(8, seed=9, resets=60),
)
MEMORY_RUNS = (
    Run(40, seed=6, memory=(("latency_cycles", 60), ("cycles_per_beat", 3))),
    Run(40, 0.5, "inputs", 7, (("latency_cycles", 1),)),
    # The memory answers with an error, which the design has to report.
    Run(40, seed=10, memory=((ERROR_BEAT, 50),)),
)
# Words of tables, each of which few inputs read.
WORD_RUNS = (Run(6000, seed=11),)


@dataclass(frozen=True)
class End:
    """What became of a mutant, and what showed it."""

    how: Ending
    by: str = ""

    @property
    def is_killed(self) -> bool:
        """Whether a check saw it."""
        return self.how in KILLED


class Subject:
    """An emitted design, with its mutations.

    Args:
        source: the design.
        folder: where it is emitted, whole and mutated.
    """

    def __init__(self, source: Source, folder: Path) -> None:
        import torch

        from mase_hw.api import emit_verilog
        from mase_hw.emit.design import DesignSummary
        from mase_hw.emit.project import load_reference
        from mase_hw.graph import trace

        self.name, self.whole = source.name, folder / source.name / "whole"
        self.is_small = source.is_small
        self._folder = folder / source.name / "mutated"
        self._cache = folder / "cache"
        torch.manual_seed(0)
        model, inputs = source.model(), source.examples()
        emit_verilog(
            trace(model, inputs, name=source.name),
            output=self.whole,
            config=dict(source.config),
            parallelism=source.parallelism,
            memory=source.memory,
        )
        shutil.copytree(self.whole, self._folder)
        self.summary = DesignSummary.load(self.whole)
        self.texts = {name: (self.whole / name).read_bytes() for name in sources(self.whole)}
        self._reference = load_reference(self.whole)
        self._is_prepared = False
        self._requests: dict[Run, tuple[RunRequest, Table]] = {}
        # In which cycles beats move, in runs of the design as it is.
        self._moved: dict[Run, list[list[int]]] = {}

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that a mutant goes through until one shows it."""
        return RUNS + (MEMORY_RUNS if self.summary.external else ())

    def prepare(self, chosen: Sequence[tuple[Subject, Mutation]]) -> None:
        """Build the design with mutations behind a choice; the unmutated one must be right.

        Raises:
            SimulationError: where it is not.
        """
        if self._is_prepared:
            return
        mutations = {
            number: item
            for number, (home, item) in enumerate(chosen, 1)
            if item.is_built_in
            and item.file in self.texts
            and (home is self or item.file != "top.sv")
        }
        for _ in write_combined(self._folder, self.texts, mutations, None):
            pass
        self._choose(0)
        for run in (*self.runs, *WORD_RUNS):
            end = self._run(self._folder, run)
            if end is not None:
                raise SimulationError(f"{self.name} without a mutation: {end.how}, {end.by}")
        self._is_prepared = True

    def _choose(self, number: int) -> None:
        (self._folder / CHOICE_FILE).write_text(f"{number}\n")

    def simulated(self, number: int, mutation: Mutation) -> End | None:
        """Return what the runs show of a mutant; None where they show nothing."""
        if mutation.kind == "parameter" and self.is_same_circuit(mutation):
            return End("equivalent", "the same circuit")
        if mutation.is_built_in:
            self._choose(number)
            return self._runs(self._folder)
        with self._changed(mutation) as folder:
            if mutation.kind == "memory":
                self._choose(0)
                return self._runs(folder, *WORD_RUNS)
            with other_cache(self._cache):
                return self._runs(folder)

    def _runs(self, folder: Path, *more: Run) -> End | None:
        ends = (self._run(folder, run) for run in (*self.runs, *more))
        return next((end for end in ends if end is not None), None)

    @contextmanager
    def _changed(self, mutation: Mutation) -> Iterator[Path]:
        """Give a folder with the mutation alone."""
        if mutation.kind == "memory":
            before = (self._folder / mutation.file).read_bytes()
            invert(self._folder, mutation)
            try:
                yield self._folder
            finally:
                (self._folder / mutation.file).write_bytes(before)
            return
        folder = self._folder.with_name("alone")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.whole, folder)
        text = replaced(self.texts[mutation.file], mutation)
        (folder / mutation.file).write_bytes(text)
        yield folder

    def _request(self, folder: Path, run: Run) -> tuple[RunRequest, Table]:
        from mase_hw.sim.inputs import random_codes
        from mase_hw.sim.memory import memory_model
        from mase_hw.sim.simulate import make_request, reset_moments

        if run not in self._requests:
            summary = self.summary
            codes = random_codes(summary.inputs, run.samples, run.seed)
            found = self._reference(codes, [stream.node for stream in summary.outputs])
            expected = {
                stream.name: found[stream.node].reshape(run.samples, *stream.spec.shape)
                for stream in summary.outputs
            }
            request = make_request(folder, summary, codes, expected, run.seed, run.stall)
            memory = memory_model(self.whole, summary, dict(run.memory))
            moments = reset_moments(summary, run.resets, run.seed)
            request = replace(
                request, stalled=run.stalled, memory=memory, resets=moments, checks=True
            )
            self._requests[run] = request, expected
        kept, wanted = self._requests[run]
        return replace(kept, project=folder), wanted

    def _run(self, folder: Path, run: Run) -> End | None:
        """Return what a run shows; None where it shows nothing."""
        from mase_hw.sim.checker import check_stream
        from mase_hw.sim.compiling import BuildError
        from mase_hw.sim.native_engine import run_native
        from mase_hw.sim.simulate import measured_cycles, wrong_before

        request, expected = self._request(folder, run)
        try:
            result = run_native(request)
        except BuildError as error:
            return End("refused", str(error).splitlines()[-1])
        except SimulationError as error:
            return End("stopped", str(error).splitlines()[0])
        reported = [item for item in result.violations if "answered with an error" in item.rule]
        if len(result.violations) > len(reported) or run.reports != bool(reported):
            rules = [item.rule for item in result.violations] or ["no error reported"]
            return End("protocol", f"{rules[0]} ({run})")
        checks = [
            check_stream(stream, expected[stream.name], result.streams[stream.name])
            for stream in self.summary.outputs
        ]
        came = all(
            len(result.streams[item.name].cycles) == run.samples * item.spec.beats
            for item in self.summary.inputs
        )
        if result.hung and not came:
            return End("stall", str(run))
        if any(check.mismatches for check in checks) or wrong_before(request, result):
            return End("mismatch", str(run))
        if not run.stall and not run.memory:
            wanted = (self.summary.latency_cycles, self.summary.interval_cycles)
            if measured_cycles(request, result) != wanted:
                return End("cycles", str(run))
        moved = [recording.cycles.tolist() for recording in result.streams.values()]
        # The first run of all is that of the design without a mutation.
        if moved != self._moved.setdefault(run, moved):
            return End("cycles", f"other than recorded: {run}")
        return None

    @cached_property
    def _known(self) -> dict[str, Machines]:
        return {}

    def _machines(self, module: str) -> Machines:
        """Return the design without a mutation, with the instances of a module."""
        from mase_hw.proof import Machines

        if module not in self._known:
            self._known[module] = Machines(self.whole, self.summary, list(self.texts), module)
        return self._known[module]

    @contextmanager
    def _text(self, mutation: Mutation) -> Iterator[tuple[Path, list[str]]]:
        """Give a folder with the mutation in the text that was simulated, and its sources."""
        folder, names = self._folder.with_name("proved"), list(self.texts)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.whole, folder)
        if mutation.is_built_in:
            names = [f"{PACKAGE}.sv", *names]
            for _ in write_combined(folder, self.texts, {1: mutation}, 1):
                pass
        elif mutation.kind == "memory":
            invert(folder, mutation)
        else:
            text = replaced(self.texts[mutation.file], mutation)
            (folder / mutation.file).write_bytes(text)
        yield folder, names

    def equivalent(self, mutation: Mutation, limit_seconds: float = EQUIVALENCE_SECONDS) -> End:
        """Return whether a mutant is the same as the design, as far as the solver comes."""
        from mase_hw.proof import Machines, equivalent

        module = self._reader(mutation) if mutation.kind == "memory" else Path(mutation.file).stem
        with self._text(mutation) as (folder, names):
            mutated = Machines(folder, self.summary, names, "" if module == "top" else module)
            try:
                verdict = equivalent(
                    self._machines(module), mutated, limit_seconds, whole=self.is_small
                )
            except ProofError as error:
                # The design itself is read: what is refused are parameters that contradict.
                return End("refused", str(error))
        if verdict.status == "proved":
            same = "the same circuit" if not verdict.depth else "proved by induction"
            return End("equivalent", same)
        if verdict.status == "refuted":
            return End("left", f"differs at a port after {verdict.depth} cycles of a run")
        return End("left", "neither a difference nor a proof was found in time")

    def _reader(self, mutation: Mutation) -> str:
        """Return the module that reads a memory image; none for one that lies outside."""
        top = self.texts["top.sv"].decode()
        before = top.partition(f'/{Path(mutation.file).name}"')[0]
        found = re.findall(r"^  (mase_\w+) #", before, re.MULTILINE)
        return found[-1] if found and before != top else ""

    def is_same_circuit(self, mutation: Mutation) -> bool:
        """Return whether the mutation changes nothing that is elaborated."""
        from mase_hw.proof import Machines

        module = Path(mutation.file).stem
        if module == "top":
            return False
        with self._text(mutation) as (folder, names):
            try:
                mutated = Machines(folder, self.summary, names, module).own
            except ProofError:
                return False
            return mutated == self._machines(module).own

    def proved(self, mutation: Mutation) -> End | None:
        """Return whether a proof of a cell that uses the mutated module fails."""
        from mase_hw.cells import cells
        from mase_hw.emit.modules import module_texts
        from mase_hw.proof import parts, prove_cell, prove_part, subjects

        module = Path(mutation.file).stem
        if mutation.kind == "memory" or module == "top":
            return None
        text = replaced(self.texts[mutation.file], mutation).decode()
        given, end = {module: text}, monotonic() + PROOF_SECONDS
        used = {Path(name).stem for name in self.texts}
        found = [
            prove_part(part, limit_seconds=SEARCH_SECONDS, texts=given)
            for cls in parts()
            if cls.module == module
            for part in cls.proofs()[:2]
        ]
        found += [
            prove_cell(cell, limit_seconds=SEARCH_SECONDS, texts=given)
            for cls in cells()
            for cell in subjects(cls)[:2]
            if cell.module in used and module in module_texts([cell])
        ]
        for rows in found:
            try:
                for row in rows:
                    if row.verdict.status in ("refuted", "vacuous"):
                        return End("proof", f"{row.cell}: {row.claim}")
                    if monotonic() > end:
                        return None
            except ProofError as error:
                return End("proof", str(error))
        return None


@contextmanager
def other_cache(folder: Path) -> Iterator[None]:
    """Keep builds that nobody will ask for again out of the user's cache."""
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[CACHE_VARIABLE]
        else:
            os.environ[CACHE_VARIABLE] = before
        for name in ("verilated", "models", "executables"):
            shutil.rmtree(folder / name, ignore_errors=True)


def settled(mutation: Mutation, number: int, home: Subject, others: Sequence[Subject]) -> End:
    """Return what becomes of a mutant that the runs of its design show nothing of.

    Args:
        mutation: what is mutated.
        number: its number in the choice.
        home: the design that it was found in.
        others: designs that may use the module, too.
    """
    if mutation.is_built_in and mutation.file != "top.sv":
        for other in others:
            if mutation.file in other.texts:
                end = other.simulated(number, mutation)
                if end is not None:
                    return replace(end, by=f"{other.name}: {end.by}")
    same = home.equivalent(mutation)
    if same.how in ("equivalent", "refused"):
        return same
    try:
        return home.proved(mutation) or same
    except MaseError as error:
        return replace(same, by=f"{same.by}; {error}")
