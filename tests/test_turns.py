"""Every slow test runs on some day of a cycle, and the choice of a day is always the same."""

from tests._turns import ALWAYS, TURNS, is_due

NAMES = [f"tests/flow/test_x.py::test_y[{number}]" for number in range(500)]


def test_every_test_has_one_day_of_a_cycle():
    for name in NAMES:
        assert sum(is_due(name, day) for day in range(100, 100 + TURNS)) == 1


def test_days_are_about_alike():
    counts = [sum(is_due(name, day) for name in NAMES) for day in range(TURNS)]
    assert max(counts) < 2 * len(NAMES) / TURNS


def test_some_run_every_day():
    assert all(is_due(f"{start}x::y", day) for start in ALWAYS for day in range(TURNS))
