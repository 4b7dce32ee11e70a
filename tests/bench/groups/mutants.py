"""Single mutations of the hardware: do the checks see them?"""

from __future__ import annotations

import hashlib
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from mase_hw._cache import cache_folder
from mase_hw.errors import ConfigError
from mase_hw.registry import nearest
from tests.bench.base import Benchmark, Row
from tests.bench.mutant_designs import COMPANIONS, SOURCES
from tests.bench.mutant_runs import KILLED, End, Ending, Subject, settled
from tests.bench.mutations import Finder, Kind, Mutation, memory_bits

SAMPLES, QUICK_SAMPLES = 560, 24
SEED = 0
BAR_PERCENT = 97
# It names the place of the model's source, and changes nothing.
COMMENT = re.compile(rb"//[^\n]*")
# Of a hundred mutations, how many are of which kind.
SHARES: Mapping[Kind, int] = {
    "operator": 28, "condition": 24, "constant": 12, "signal": 15, "statement": 9,
    "parameter": 6, "memory": 6,
}  # fmt: skip


class Mutants(Benchmark):
    """Mutations of four small designs, each killed by a check or proved to change nothing.

    What became of each is kept in the cache, so that a run that was stopped goes on.
    """

    name: ClassVar[str] = "mutants"
    title: ClassVar[str] = "Single mutations of the SystemVerilog"
    default: ClassVar[bool] = False

    def __init__(self, names: Sequence[str] = tuple(SOURCES), samples: int | None = None) -> None:
        self._names, self._samples = tuple(names), samples

    def only(self, names: Sequence[str]) -> Mutants:
        """Return the benchmark of some designs."""
        for name in names:
            if name not in SOURCES:
                raise ConfigError(f"no design is called {name!r}; {nearest(name, SOURCES)}")
        return Mutants(names, self._samples)

    def sampled(self, samples: int) -> Mutants:
        """Return the benchmark with so many mutations of all designs together."""
        return Mutants(self._names, samples)

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield a row for each mutant that no check saw, and sums for each design."""
        import torch

        torch.set_num_threads(1)
        samples = self._samples or (QUICK_SAMPLES if quick else SAMPLES)
        with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as scratch:
            mutants = Sample(samples, Path(scratch))
            mutants.run(self._names)
            mutants.settle(self._names)
            for name in self._names:
                yield from mutants.left(name)
            for name in self._names:
                yield from sums(name, mutants.ends([name]))
            if len(self._names) > 1:
                yield from sums("all", mutants.ends(self._names))


class Sample:
    """Mutants of all designs, and what becomes of them.

    Args:
        samples: how many, about.
        folder: where designs are emitted.
    """

    def __init__(self, samples: int, folder: Path) -> None:
        self._subjects = {name: Subject(source, folder) for name, source in SOURCES.items()}
        everything = list(self._subjects.values())
        self._companions = [Subject(source, folder) for source in COMPANIONS]
        self._chosen = choose(everything, samples)
        self._kept = Kept(everything, samples)

    def _open(
        self, names: Sequence[str], *endings: Ending | None
    ) -> Iterator[tuple[int, Subject, Mutation]]:
        """Yield the mutants of designs that ended so, None for not at all."""
        for number, (home, item) in enumerate(self._chosen, 1):
            end = self._kept.end(home, item)
            if home.name in names and (end.how if end else None) in endings:
                yield number, home, item

    def run(self, names: Sequence[str]) -> None:
        """Simulate the mutants of designs, those that need a build of their own last."""
        waiting = sorted(self._open(names, None), key=lambda entry: entry[2].kind == "parameter")
        for number, home, item in waiting:
            home.prepare(self._chosen)
            self._kept.add(home, item, home.simulated(number, item) or End("unseen"))

    def settle(self, names: Sequence[str]) -> None:
        """Simulate what no run showed in other designs, and try proofs."""
        for number, home, item in list(self._open(names, "unseen")):
            every = (*self._subjects.values(), *self._companions)
            others = [other for other in every if other is not home]
            for other in others:
                other.prepare(self._chosen)
            self._kept.add(home, item, settled(item, number, home, others))

    def left(self, name: str) -> Iterator[Row]:
        """Yield a row for each mutant that nothing was found of."""
        for _, home, item in self._open([name], "left"):
            end = self._kept.end(home, item)
            yield Row(f"{name}, {item.kind}: {item}", f"survives: {end.by if end else ''}")

    def ends(self, names: Sequence[str]) -> list[End]:
        """Return what became of the mutants of designs."""
        found = (self._kept.end(home, item) for home, item in self._chosen if home.name in names)
        return [end for end in found if end is not None]


def choose(subjects: Sequence[Subject], samples: int) -> list[tuple[Subject, Mutation]]:
    """Return mutations, a share of each design and kind; none of a library module twice."""
    found: list[tuple[Subject, Mutation]] = []
    seen: set[tuple[str, int, int, str]] = set()
    for subject in subjects:
        every = Finder(subject.whole).mutations()
        part = -(-samples // len(subjects))
        for kind, share in SHARES.items():
            count = -(-part * share // sum(SHARES.values()))
            given = [
                item
                for item in every
                if item.kind == kind
                and (
                    item.file == "top.sv"
                    or (item.file, item.start, item.end, item.text) not in seen
                )
            ]
            random.Random(f"{SEED} {subject.name} {kind}").shuffle(given)
            if kind == "memory":
                given = memory_bits(subject.whole, subject.summary, SEED, count)
            for item in given[:count]:
                seen.add((item.file, item.start, item.end, item.text))
                found.append((subject, item))
    return found


class Kept:
    """What became of mutants, in a file of the cache for these sources."""

    def __init__(self, subjects: Sequence[Subject], samples: int) -> None:
        content = hashlib.sha256(f"{SEED} {samples} {SHARES}".encode())
        for subject in subjects:
            for name, text in subject.texts.items():
                content.update(name.encode() + b"\0" + COMMENT.sub(b"", text))
        self._path = cache_folder("mutants") / f"{content.hexdigest()[:16]}.jsonl"
        self._ends: dict[str, End] = {}
        if self._path.is_file():
            for line in self._path.read_text().splitlines():
                entry = json.loads(line)
                self._ends[entry["key"]] = End(entry["how"], entry["by"])

    def end(self, subject: Subject, mutation: Mutation) -> End | None:
        """Return what became of a mutant, if that is known."""
        return self._ends.get(self._key(subject, mutation))

    def add(self, subject: Subject, mutation: Mutation, end: End) -> None:
        """Keep what became of a mutant."""
        key = self._key(subject, mutation)
        self._ends[key] = end
        entry = {"key": key, "what": str(mutation), **asdict(end)}
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    @staticmethod
    def _key(subject: Subject, mutation: Mutation) -> str:
        return f"{subject.name} {json.dumps(asdict(mutation))}"


def sums(title: str, ends: Sequence[End]) -> Iterator[Row]:
    """Yield the sums of some mutants."""
    count = Counter[Ending](end.how for end in ends)
    mutants = sum(count.values()) - count["refused"]
    killed = sum(count[how] for how in KILLED)
    words = ", ".join(f"{how} {count[how]}" for how in KILLED if count[how])
    yield Row(f"{title}: mutants that build", f"{mutants} ({count['refused']} more do not)")
    yield Row(f"{title}: killed", f"{killed}: {words}")
    yield Row(f"{title}: proved to change nothing at a port", str(count["equivalent"]))
    share = 100 * killed / max(mutants - count["equivalent"], 1)
    yield Row(
        f"{title}: killed, of those not equivalent; left",
        f"{share:.1f} %; {count['left']}",
        f">= {BAR_PERCENT} %",
        share >= BAR_PERCENT,
    )
