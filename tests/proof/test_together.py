"""Proofs beside each other: rows in the order of the proofs, and the first error ends them."""

import threading

import pytest

from mase_hw.errors import ProofError
from mase_hw.proof._report import ProofRow
from mase_hw.proof._solver import Verdict
from mase_hw.proof._together import together


def row(name):
    return ProofRow(name, "", "stable", Verdict("proved", 1), 0.0)


def test_rows_keep_the_order_of_proofs_that_end_in_another(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    second_is_done, seen = threading.Event(), []

    def first():
        assert second_is_done.wait(60)
        yield row("first")
        yield row("first again")

    def second():
        yield row("second")
        second_is_done.set()

    rows = together([first, second], lambda done, total: seen.append((done, total)))
    assert [item.cell for item in rows] == ["first", "first again", "second"]
    assert seen == [(0, 2), (1, 2), (2, 2)]


def test_an_error_ends_what_has_not_begun(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    begun = []

    def refused():
        begun.append("refused")
        raise ProofError("Yosys cannot read the module")
        yield

    def later():
        begun.append("later")
        yield row("later")

    with pytest.raises(ProofError, match="cannot read"):
        together([refused, *[later] * 50])
    assert len(begun) < 51
