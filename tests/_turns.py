"""Which tests of the whole suite run on a day of the year; each runs at least once in a cycle."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from zlib import crc32

# Days until every test has run.
TURNS = 14
# Days until every test without parameters has run.
ALONE = 2
# Beginnings of the names of tests that run every day: style and lint, what recorded networks
# compute, and the main job at every parallelism.
ALWAYS = (
    "tests/test_quality.py",
    "tests/test_architecture.py",
    "tests/test_pages.py",
    "tests/recorded/test_record.py::test_a_registered_network_computes",
    "tests/flow/test_perceptron.py",
)


def is_due(name: str, day: int) -> bool:
    """Return whether the slow test of a node id runs on a day, which any whole number counts."""
    return name.startswith(ALWAYS) or crc32(name.encode()) % TURNS == day % TURNS


def due(names: Sequence[str], day: int) -> set[str]:
    """Return those of the other tests' node ids that run on a day.

    Of a test with parameters one runs, or so many neighbours that all have their turn: they share
    what they set up.
    """
    found: set[str] = set()
    for function, group in groupby(names, lambda name: name.partition("[")[0]):
        members = list(group)
        if function.startswith(ALWAYS):
            found.update(members)
        elif len(members) > 1:
            found.update(_window(members, day))
        elif crc32(function.encode()) % ALONE == day % ALONE:
            found.update(members)
    return found


def _window(members: Sequence[str], day: int) -> Iterable[str]:
    size = -(-len(members) // TURNS)
    start = day * size % len(members)
    return [members[(start + place) % len(members)] for place in range(size)]
