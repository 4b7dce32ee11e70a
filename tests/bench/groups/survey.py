"""Random designs over operators, formats, memories and shared hardware: are verdicts right?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from typing import ClassVar

from tests.bench.base import Benchmark, Row

# Designs that are emitted and simulated, and inferences of each.
DESIGNS, QUICK_DESIGNS, SAMPLES = 200, 8, 12


class Survey(Benchmark):
    """Random designs, each without pauses, with pauses, and with resets."""

    name: ClassVar[str] = "survey"
    title: ClassVar[str] = "Random designs: bits and cycles"
    default: ClassVar[bool] = False

    def __init__(self, designs: int = DESIGNS) -> None:
        self._designs = designs

    def sampled(self, samples: int) -> Survey:
        """Return the benchmark of so many designs."""
        return Survey(samples)

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield a row for each design that is wrong, then the sums."""
        import torch

        fates = import_module("tests.random_designs").fates
        torch.set_num_threads(1)
        wanted = QUICK_DESIGNS if quick else self._designs
        ends = Counter[str]()
        for found in fates(count(), SAMPLES):
            ends[found.what] += 1
            if found.what in ("wrong", "crash"):
                yield Row(f"seed {found.seed}: {found.what}", found.why, "none", False)
            if ends.total() - ends["refused"] == wanted:
                break
        yield Row(
            f"random designs, {SAMPLES} inferences each: wrong bits, cycles or verdicts",
            f"{ends['wrong'] + ends['crash']} of {wanted}; refused with a message: "
            f"{ends['refused']}",
            "0",
            ends["exact"] == wanted,
        )
