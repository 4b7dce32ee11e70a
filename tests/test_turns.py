"""Every test runs on some day of a cycle, and the choice of a day is always the same."""

from tests._turns import ALWAYS, PARAMETERS, TURNS, due_parameters, is_due

NAMES = [f"tests/flow/test_x.py::test_y[{number}]" for number in range(500)]


def test_every_test_has_one_day_of_a_cycle():
    for name in NAMES:
        assert sum(is_due(name, day) for day in range(100, 100 + TURNS)) == 1


def test_days_are_about_alike():
    counts = [sum(is_due(name, day) for name in NAMES) for day in range(TURNS)]
    assert max(counts) < 2 * len(NAMES) / TURNS


def test_some_run_every_day():
    assert all(is_due(f"{start}x::y", day) for start in ALWAYS for day in range(TURNS))


def test_of_many_parameters_a_few_run_and_all_within_a_cycle():
    others = ["tests/flow/test_x.py::test_z", "tests/flow/test_x.py::test_w[a]"]
    for count in (2, 7, 40, 500):
        names = [*NAMES[:count], *others]
        days = [due_parameters(names, day) for day in range(100, 100 + TURNS)]
        assert set().union(*days) == set(names)
        most = min(count, max(PARAMETERS, -(-count // TURNS)))
        assert all(len(found) == most + len(others) for found in days)


def test_quality_is_looked_at_whole():
    names = [f"{start}::x[{number}]" for start in ALWAYS for number in range(9)]
    assert due_parameters(names, 5) == set(names)
