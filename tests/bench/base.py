"""The contract of a benchmark: rows of figures beside the bars they should reach."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from mase_hw.errors import ConfigError
from mase_hw.kernels.profile import Row as Row


class Benchmark(ABC):
    """One group of figures, one file of `groups`.

    Attributes:
        name: the word a command uses.
        title: what the group measures.
        default: whether it is measured when no group is named.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    default: ClassVar[bool] = True

    @abstractmethod
    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures one by one, each after its correctness was checked.

        Args:
            quick: fewer samples and shapes; for a look, not for a table.
        """

    def only(self, names: Sequence[str]) -> Benchmark:
        """Return the benchmark with the figures of these names alone.

        Raises:
            ConfigError: when a name is unknown, or the group cannot be taken apart.
        """
        raise ConfigError(f"the figures of {self.name!r} are measured together, not {names[0]!r}")

    def parts(self) -> Sequence[str]:
        """Return names that `only` takes, which together are the whole group; or none."""
        return ()

    def sampled(self, samples: int) -> Benchmark:
        """Return the benchmark with a sample of this size.

        Raises:
            ConfigError: when the group takes none.
        """
        raise ConfigError(f"the figures of {self.name!r} take no sample; asked for: {samples}")


@dataclass
class Elapsed:
    """Seconds of a block: wall clock, and processor time with child processes."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def timed() -> Iterator[Elapsed]:
    """Measure the block."""
    result = Elapsed()
    wall, cpu = time.perf_counter(), _cpu_seconds()
    yield result
    result.wall, result.cpu = time.perf_counter() - wall, _cpu_seconds() - cpu


def _cpu_seconds() -> float:
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def median_seconds(function: Callable[[], object], repeats: int = 5) -> float:
    """Return the median wall time of `function` after one warm-up."""
    function()
    samples = []
    for _ in range(repeats):
        with timed() as elapsed:
            function()
        samples.append(elapsed.wall)
    return statistics.median(samples)


def python_environment(**extra: str) -> dict[str, str]:
    """Return the environment of a child that measures alone: one thread."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", **extra}


PYTHON = sys.executable
