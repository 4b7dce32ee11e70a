"""Proofs hold for the cells as they are, and fail for cells that are broken on purpose."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from mase_hw.cells import Port
from mase_hw.cells.argmax import Argmax
from mase_hw.cells.block_accumulate import BlockAccumulate
from mase_hw.cells.cache import Cache
from mase_hw.cells.crop import Crop
from mase_hw.cells.multiply_accumulate import MultiplyAccumulate
from mase_hw.cells.reduce import Reduce
from mase_hw.cells.reorder import Reorder
from mase_hw.cells.row_norm import RowNorm
from mase_hw.cells.softmax import Softmax
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.cells.stream_replay import StreamReplay
from mase_hw.cells.unary_blocks import UnaryBlocks
from mase_hw.cli import build_app
from mase_hw.emit.design import library
from mase_hw.emit.modules import module_texts
from mase_hw.errors import ConfigError, ProofError, ToolError
from mase_hw.formats import StreamField
from mase_hw.proof import ProofReport, ProofRow, prove, prove_cell, subjects
from mase_hw.proof import _solver as solver
from mase_hw.proof._harness import Proof
from mase_hw.proof._prove import compared
from mase_hw.timing.bounds import streams

LIMIT_SECONDS = 8.0


def fifo(depth: int, width: int = 2) -> StreamFifo:
    return StreamFifo(Port((StreamField("", 1, width),), 1), depth)


def verdicts(cell, changes=(), limit_seconds=LIMIT_SECONDS) -> dict[str, ProofRow]:
    """Return what becomes of each property; `changes` are (module, old text, new text)."""
    texts = {}
    for module, old, new in changes:
        text = texts.get(module, library()[module])
        assert text.count(old) >= 1, old
        texts[module] = text.replace(old, new)
    rows = prove_cell(cell, limit_seconds=limit_seconds, texts=texts)
    return {row.claim: row for row in rows}


def failed(rows: dict[str, ProofRow]) -> set[str]:
    return {name for name, row in rows.items() if row.verdict.status in ("refuted", "vacuous")}


@pytest.mark.first(1)
@pytest.mark.parametrize("depth", [1, 3])
def test_a_queue_is_proved_unbounded(depth):
    rows = verdicts(fifo(depth))
    claims = {name for name in rows if not name.startswith("reach")}
    assert claims >= {
        "stable", "not invented", "offered in time", "data in taken in time", "right data",
    }  # fmt: skip
    assert {rows[name].verdict.status for name in claims} == {"proved"}
    assert {rows[name].verdict.status for name in rows.keys() - claims} == {"reached"}
    assert "proved by induction" in rows["right data"].said


def test_an_arithmetic_cell_keeps_the_stream_contract():
    """What it computes is not proved: it is compared for all inputs, and the table says so."""
    cell = subjects(MultiplyAccumulate)[1]
    rows = verdicts(cell, limit_seconds=2)
    assert failed(rows) == set()
    assert rows["stable"].verdict.status == "proved"
    assert rows["weight moves along"].verdict.status == "proved"
    assert rows["right data"].said == "compared for all inputs of small instances"


@pytest.mark.parametrize(
    ("cls", "was", "instead"),
    [
        (Cache, "if (write_q[1]) memory", "if (write_q[0]) memory"),
        (MultiplyAccumulate, "", "// a comment, which computes nothing\n"),
        (MultiplyAccumulate, "sum_q) + addend", "sum_q) - addend"),
        (Softmax, "fine_2_q <= fine_1_q", "fine_2_q <= '0"),
    ],
)
def test_what_computes_something_else_than_was_compared_fails(cls, was, instead):
    cell = subjects(cls)[0]
    texts = module_texts([cell])
    known = compared(cell.module, texts)
    edited = {**texts, cell.module: texts[cell.module].replace(was, instead, 1)}
    assert edited != texts
    assert known.status == "compared"
    found = compared(cell.module, edited)
    assert found.status == ("unlike" if was else "compared")
    report = ProofReport((ProofRow(cls.__name__, "", "right data", found, 0.0),))
    assert bool(report.refuted) == bool(was)


QUEUE = "mase_stream_fifo"


READY = ("room(data_in_ready)", "room()")
VALID = "if (load) data_out_valid <= waiting || write;"
BROKEN = {
    "takes what it has no room for": ("right data", READY, ("assign load ",
        "assign data_in_ready = 1'b1;\n  assign load ")),
    "changes what it offers": ("stable", ("if (load) data_out <=", "data_out <=")),
    "changes the order": ("right data", ("data_out <= waiting ? memory[read_q] :", "data_out <=")),
    "sends a beat twice": ("not invented", (VALID, "data_out_valid <= 1'b1;")),
    "loses a beat": ("offered in time", ("store = write && (", "store = write && !load && (")),
    "waits for its consumer": ("offered in time", (VALID,
        "if (load) data_out_valid <= (waiting || write) && data_out_ready;")),
    "does not reset a pointer": ("right data", ("read_q <= '0;", "")),
    "gives no place back": ("data in taken in time", (".give(data_out_valid && data_out_ready)",
        ".give(1'b0)")),
}  # fmt: skip


@pytest.mark.first(1)
@pytest.mark.parametrize("fault", BROKEN)
def test_a_queue_that_is_broken_on_purpose_fails(fault):
    breach, *changes = BROKEN[fault]
    rows = verdicts(fifo(3), [(QUEUE, *change) for change in changes])
    assert breach in failed(rows), {name: row.said for name, row in rows.items()}
    fault = rows[breach].verdict.fault
    assert fault[0].startswith("cycle 0: rst=1")
    assert len(fault) == rows[breach].verdict.depth


@pytest.mark.full
def test_a_row_that_is_cut_in_the_wrong_place_fails():
    cell = subjects(Crop)[0]
    assert failed(verdicts(cell)) == set()
    wrong = [("mase_crop", "Shift = START % LANES", "Shift = (START + 1) % LANES")]
    assert "right data" in failed(verdicts(cell, wrong))


@pytest.mark.full
def test_a_block_that_is_replayed_too_often_fails():
    cell = StreamReplay(Port((StreamField("", 1, 1),), 2), 2, 2)
    wrong = [("mase_stream_replay", ".COUNT(REPEATS)", ".COUNT(REPEATS + 1)")]
    assert failed(verdicts(cell, wrong, limit_seconds=3)) >= {"not invented", "right data"}


@pytest.mark.full
def test_a_module_that_never_does_what_is_claimed_is_no_success():
    """Nothing ever enters: what is said of results would hold of no result."""
    shut = [
        (QUEUE, ".room(data_in_ready)", ".room()"),
        (QUEUE, "assign load ", "assign data_in_ready = 1'b0;\n  assign load "),
    ]
    rows = verdicts(fifo(2), shut)
    assert rows["reach two inferences"].verdict.status == "vacuous"
    assert rows["right data"].verdict.status == "proved"
    assert "reach two inferences" in failed(rows)


def test_an_invariant_that_was_not_checked_is_no_proof():
    said = "Invariant F[3] : 7 clauses with 5 flops (out of 9)\n"
    checked = "Verification of invariant with 7 clauses was successful.\n"
    assert solver.outcome(f"{said}{checked}Property proved.") == solver.Verdict("proved", 3, 7)
    assert solver.outcome(f"{said}Property proved.") is None


@pytest.mark.full
def test_a_search_without_an_end_is_inconclusive(monkeypatch):
    for search in ("_prove", "_look"):
        monkeypatch.setattr(solver.Circuit, search, lambda *_: solver.Verdict("bounded", 0))
    monkeypatch.setattr(solver.Circuit, "induce", lambda *_: None)
    monkeypatch.setattr(solver, "MOST_CYCLES", 5)
    row = verdicts(fifo(1))["stable"]
    assert row.verdict.status == "bounded"
    assert row.said == "inconclusive: no fault in 5 cycles"


def test_an_unknown_cell_is_refused():
    with pytest.raises(
        ConfigError, match=r"no cell that can be proved is called 'StreamFiffo'.*StreamFifo"
    ):
        prove("StreamFiffo")


def test_a_module_that_cannot_be_read_is_an_error():
    with pytest.raises(ProofError, match=r"Yosys cannot read the module: .*mase_stream_fifo.sv"):
        verdicts(fifo(1), [(QUEUE, "assign load ", "asign load ")])


def test_without_the_solver_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setattr(solver, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match="-m pip install pyosys"):
        prove("StreamFifo")


def test_prove_prints_a_table_and_a_record(monkeypatch):
    runner, reports = CliRunner(), []

    def once(*arguments, **options):
        reports[:] = reports or [prove(*arguments, **options)]
        return reports[0]

    monkeypatch.setattr("mase_hw.proof.prove", once)
    shown = runner.invoke(build_app(), ["prove", "mase_copy_lanes", "--samples", "1"])
    assert shown.exit_code == 0, shown.output
    assert " proved for all times, 0 inconclusive, 0 failed" in shown.output
    told = runner.invoke(build_app(), ["prove", "CopyLanes", "--samples", "1", "--json"])
    record = json.loads(told.output)
    assert record["failed"] == record["inconclusive"] == 0
    assert record["proved"] >= 4


@pytest.mark.full
def test_a_sum_of_rounds_is_proved_whole():
    """Its control needs what ties credits, results on their way and the turn: found from runs."""
    cell = subjects(Argmax)[1]
    rows = verdicts(cell, limit_seconds=60)
    claims = {name for name in rows if not name.startswith(("reach", "right data"))}
    assert {rows[name].verdict.status for name in claims} == {"proved"}, {
        name: rows[name].said for name in claims
    }


# What modules say of themselves, and a change that it does not survive.
SAID_INSIDE = {
    "a tile is read before its block is whole": (subjects(UnaryBlocks)[2], ("mase_block_encode",
        "read <= waiting != '0;", "read <= 1'b1;"), "blocks match"),
    "a row's value comes late": (subjects(RowNorm)[1], ("mase_row_norm", ".DELAY(6 +",
        ".DELAY(5 +"), "ends match"),
    "a beat enters that was not read": (subjects(Softmax)[2], ("mase_softmax",
        ".data_in_valid(whole),", ".data_in_valid(1'b1),"), "exponentials match"),
    "a block is read before it is there": (subjects(StreamReplay)[2], ("mase_stream_replay",
        "there_q <= !first || waiting_next;", "there_q <= 1'b1;"), "beats match"),
    "a third tensor enters": (subjects(Reorder)[1], ("mase_reorder",
        "data_in_0_ready <= full != 2'd2;", "data_in_0_ready <= 1'b1;"), "tensors match"),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("fault", SAID_INSIDE)
def test_what_a_module_counts_of_itself_is_proved_and_fails(fault):
    cell, change, claim = SAID_INSIDE[fault]
    sound = verdicts(cell, limit_seconds=15)
    inside = [row for name, row in sound.items() if name.endswith(claim)]
    assert inside
    assert all(row.verdict.status == "proved" for row in inside)
    assert sound["not invented"].verdict.status == "proved"
    assert sound["offered in time"].verdict.status == "proved"
    rows = verdicts(cell, [change])
    assert any(name.endswith(claim) for name in failed(rows))


@pytest.mark.full
def test_constants_ahead_of_the_results_are_no_fault():
    """As many as there are sums under way: the counts of the environment are wide enough."""
    rows = verdicts(subjects(MultiplyAccumulate)[0], limit_seconds=20)
    assert failed(rows) == set()
    assert rows["not invented"].verdict.status == "proved"


@pytest.mark.full
def test_a_replay_keeps_the_bound_of_its_motion_while_nobody_takes():
    """The third block waits until the first was sent: for so long a consumer may wait."""
    rows = verdicts(subjects(StreamReplay)[0], limit_seconds=10)
    assert rows["data in taken in time"].verdict.status == "proved"


@pytest.mark.parametrize("cls", [Softmax, RowNorm, Reduce, BlockAccumulate])
def test_counts_of_the_environment_are_wide_enough_for_what_a_cell_holds(cls):
    """Pipelines take more beats than they are sure to have room for, and count them all."""
    for cell in subjects(cls):
        proof = Proof(cell, dict.fromkeys(cell.images, ""))
        for port in (item for item in proof.inputs if item.waits):
            beats = np.arange(port.beats * 200)
            departures = np.arange(proof.output.beats * 200) + 100_000
            moved = cell.motion.under_pressure(dict.fromkeys(streams(cell), beats), departures)
            taken = int((moved.consumed[port.name] < 100_000).sum())
            assert taken < port.beats * 200
            assert taken <= port.held * port.beats
            assert taken - port.room < 1 << port.room_bits


def test_a_bound_of_time_is_measured_in_a_full_cell():
    """Rows of normalisations are short: six of them do not fill it, and nothing waits."""
    proofs = [Proof(cell, dict.fromkeys(cell.images, "")) for cell in subjects(RowNorm)]
    assert [proof.inputs[0].wait for proof in proofs] == [1, 1, 1]


@pytest.mark.full
@pytest.mark.parametrize("cls", [Softmax, RowNorm])
def test_rows_are_neither_invented_nor_late_as_far_as_the_search_comes(cls):
    rows = verdicts(subjects(cls)[0], limit_seconds=2)
    assert failed(rows) == set()


@pytest.mark.full
@pytest.mark.parametrize("name", ["Cat", "Reorder", "SlidingWindow"])
def test_nothing_is_claimed_that_fails(name):
    """Memories that begin after a reset, and what is awaited, are in the bounds of time."""
    assert not prove(name, limit_seconds=1.0).refuted
