"""Proofs beside each other: rows in the order of the proofs, and the first error ends them."""

import os
import signal
import time
from multiprocessing import get_context

import pytest

from mase_hw.errors import ProofError
from mase_hw.proof._report import ProofRow
from mase_hw.proof._solver import Verdict
from mase_hw.proof._together import together


def row(name):
    return ProofRow(name, "", "stable", Verdict("proved", 1), 0.0)


def test_rows_keep_the_order_of_proofs_that_end_in_another(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    second_is_done, seen = get_context("fork").Event(), []

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


def test_an_error_ends_what_has_not_begun(monkeypatch, tmp_path):
    monkeypatch.setattr("os.cpu_count", lambda: 1)

    def refused():
        raise ProofError("Yosys cannot read the module")
        yield

    def later():
        (tmp_path / "later").touch()
        yield row("later")

    with pytest.raises(ProofError, match="cannot read"):
        together([refused, *[later] * 50])
    assert not (tmp_path / "later").exists()


def test_an_error_ends_what_runs_beside_it_and_lets_it_clean_up(monkeypatch, tmp_path):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    began = get_context("fork").Event()

    def refused():
        assert began.wait(60)
        raise ProofError("Yosys cannot read the module")
        yield

    def endless():
        try:
            began.set()
            time.sleep(600)
            (tmp_path / "late").touch()
        finally:
            (tmp_path / "cleaned").touch()
        yield row("endless")

    with pytest.raises(ProofError, match="cannot read"):
        together([refused, endless])
    assert (tmp_path / "cleaned").exists()
    assert not (tmp_path / "late").exists()


def test_a_proof_that_is_killed_is_an_error():
    def killed():
        os.kill(os.getpid(), signal.SIGKILL)
        yield row("killed")

    with pytest.raises(ProofError, match="process of a proof was killed"):
        together([killed])
