"""Which slow tests run on a day: some on every day, each other one on one day of a cycle."""

from zlib import crc32

# Days until every slow test has run.
TURNS = 14
# Beginnings of the names of tests that run every day: what recorded networks compute, and the main
# job at every parallelism.
ALWAYS = (
    "tests/recorded/test_record.py::test_a_registered_network_computes",
    "tests/flow/test_perceptron.py",
)


def is_due(name: str, day: int) -> bool:
    """Return whether the slow test of a node id runs on a day, which any whole number counts."""
    return name.startswith(ALWAYS) or crc32(name.encode()) % TURNS == day % TURNS
