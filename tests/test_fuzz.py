"""A sample of random input: only messages come of it (`python -m tests.fuzz` tries thousands)."""

import random

import pytest

from tests import fuzz

SAMPLE = 120


def test_nothing_but_messages_comes_of_random_input():
    failures = fuzz.tried(seed=1, count=SAMPLE)
    assert not failures, "\n".join(f"{item.number} {item.what}\n{item.text}" for item in failures)


@pytest.mark.parametrize("error", [ValueError("no message"), RecursionError(), SystemExit()])
def test_another_exception_is_a_failure(monkeypatch, error):
    def case(ground: object, chance: object) -> None:
        raise error

    monkeypatch.setattr(fuzz, "CASES", {case: 1})
    failure = fuzz._try(None, random.Random(0), 7)
    assert failure is not None
    assert failure.number == 7


def test_a_value_is_mutated_in_one_place():
    chance = random.Random(0)
    value = {"a": [1, {"b": 2}], "c": "d"}
    changed = [fuzz.mutated(value, chance) for _ in range(50)]
    assert value == {"a": [1, {"b": 2}], "c": "d"}
    assert sum(item != value for item in changed) > 40
