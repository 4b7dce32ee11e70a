"""Every test runs on some day of a cycle, and the choice of a day is always the same."""

from tests._turns import ALONE, ALWAYS, TURNS, due, is_due

NAMES = [f"tests/flow/test_x.py::test_y[{number}]" for number in range(500)]


def test_every_test_has_one_day_of_a_cycle():
    for name in NAMES:
        assert sum(is_due(name, day) for day in range(100, 100 + TURNS)) == 1


def test_days_are_about_alike():
    counts = [sum(is_due(name, day) for name in NAMES) for day in range(TURNS)]
    assert max(counts) < 2 * len(NAMES) / TURNS


def test_some_run_every_day():
    assert all(is_due(f"{start}x::y", day) for start in ALWAYS for day in range(TURNS))


def test_of_parameters_few_run_and_all_within_a_cycle():
    for count in (2, 7, 40, 500):
        names = NAMES[:count]
        days = [due(names, day) for day in range(100, 100 + TURNS)]
        assert set().union(*days) == set(names)
        assert all(len(found) == -(-count // TURNS) for found in days)


def test_two_days_run_every_test_without_parameters():
    names = [f"tests/flow/test_x.py::test_{number}" for number in range(500)]
    days = [due(names, day) for day in range(100, 100 + ALONE)]
    assert set().union(*days) == set(names)
    assert max(map(len, days)) < 0.6 * len(names)


def test_quality_is_looked_at_whole():
    names = [f"{start}::x[{number}]" for start in ALWAYS for number in range(9)]
    assert due(names, 5) == set(names)
