"""A sample of random input: only messages come of it."""

import pickle
import random

import pytest

from tests import fuzz

SAMPLE = 120
# By seed.
FOUND = {
    2: (192, 733, 1329, 1346, 1539, 1786, 3121, 4006, 4288, 4464, 4960),
    3: (8, 110, 153, 986, 1152, 2612, 2623, 2939, 3735, 3968, 4899),
    77: (841, 868, 1680, 3054, 4022, 4897),
}


@pytest.mark.full
def test_nothing_but_messages_comes_of_random_input():
    failures = fuzz.tried(1, range(SAMPLE))
    assert not failures, "\n".join(f"{item.number} {item.what}\n{item.text}" for item in failures)


def test_what_was_found_stays_mended():
    """Archives that no reader takes, numbers that are tables, names that are numbers."""
    failures = [item for seed, numbers in FOUND.items() for item in fuzz.tried(seed, numbers)]
    assert not failures, "\n".join(f"{item.number} {item.what}\n{item.text}" for item in failures)


def test_changed_onnx_files_are_refused_or_computed_as_onnx_says():
    failures = fuzz.tried(5, range(40), fuzz.an_onnx_file)
    assert not failures, "\n".join(item.text for item in failures)


@pytest.mark.full
def test_changed_onnx_files_for_a_minute():
    failures = fuzz.tried(6, range(10_000), fuzz.an_onnx_file, seconds=60)
    assert not failures, "\n".join(f"{i.number} {i.text}" for i in failures)


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    return fuzz.Ground(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("error", [ValueError("no message"), RecursionError(), SystemExit()])
def test_another_exception_is_a_failure(monkeypatch, ground, error):
    def case(ground: object, chance: object) -> None:
        raise error

    monkeypatch.setattr(fuzz, "CASES", {case: 1})
    failure = fuzz._try(ground, random.Random(0), 1)
    assert failure is not None
    assert failure.number == 1


def test_code_that_ran_is_a_failure(monkeypatch, ground):
    def case(ground: fuzz.Ground, chance: random.Random) -> None:
        with ground.fresh():
            pickle.loads(pickle.dumps(fuzz.Pickled())).close()

    monkeypatch.setattr(fuzz, "CASES", {case: 1})
    assert "code ran" in fuzz._try(ground, random.Random(0), 1).text


@pytest.mark.parametrize("name", fuzz.OWN)
def test_a_file_that_is_lost_is_a_failure(monkeypatch, ground, name):
    def case(ground: fuzz.Ground, chance: random.Random) -> None:
        with ground.fresh() as here:
            (here / name).write_text("other")

    monkeypatch.setattr(fuzz, "CASES", {case: 1})
    assert name in fuzz._try(ground, random.Random(0), 1).text


def test_a_value_is_mutated_in_one_place():
    chance = random.Random(0)
    value = {"a": [1, {"b": 2}], "c": "d"}
    changed = [fuzz.mutated(value, chance) for _ in range(50)]
    assert value == {"a": [1, {"b": 2}], "c": "d"}
    assert sum(item != value for item in changed) > 40
