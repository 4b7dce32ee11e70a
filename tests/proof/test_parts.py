"""Forks, joins, gearboxes and sources are proved unbounded, and fail when they are broken."""

from dataclasses import replace

import numpy as np
import pytest

from mase_hw.cells import Image, Port
from mase_hw.cells.axi_read_port import AxiReadPort as AxiReadPortCell
from mase_hw.cells.axi_source import AxiSource as AxiSourceCell
from mase_hw.cells.layer_source import LayerSource as LayerSourceCell
from mase_hw.cells.loop_exit import LoopExit as ExitCell
from mase_hw.cells.stream_fork import StreamFork
from mase_hw.emit.design import library
from mase_hw.formats import StreamField
from mase_hw.proof import prove, prove_part
from mase_hw.proof._parts import (
    AxiReadPort,
    AxiSource,
    Fork,
    Gearbox,
    Join,
    LayerSource,
    LoopExit,
    RomSource,
    part_of,
    parts,
)

LIMIT_SECONDS = 8.0
PORT = AxiReadPort(2, 13, 8, 1, 2)
SOURCE = AxiSource(8, 3, 1, 8, 13, 4096, 2, 2)
BROKEN = {
    "a consumer that is not waited for": (
        Fork(2), "not lost", "&(data_out_ready | done_q)", "|(data_out_ready | done_q)",
    ),
    "a beat that is sent twice": (Fork(3), "not twice", "& ~done_q", ""),
    "all or nothing": (Fork(2), "taken in time", "data_out_ready | done_q", "data_out_ready"),
    "a reset that is missing": (
        Fork(2), "offered in time", "rst || (data_in_valid && data_in_ready)",
        "data_in_valid && data_in_ready",
    ),
    "one input is enough": (Join(2), "not invented", "= &data_in_valid", "= |data_in_valid"),
    "an input that moves alone": (
        Join(3), "moves along", "(&others) & data_out_ready", "data_out_ready",
    ),
    "a rest that stays": (
        Gearbox(4, 3, 3), "right data", "level_q - LevelWidth'(OutUnits + RestUnits)",
        "level_q - LevelWidth'(OutUnits)",
    ),
    "a word too early": (
        Gearbox(4, 3, 3), "not invented", "level_q >= LevelWidth'(OutUnits)", "level_q != '0",
    ),
    "bits in the wrong place": (
        Gearbox(2, 3, 2), "right data", "held_d[place*Unit+:IN_WIDTH]", "held_d[0+:IN_WIDTH]",
    ),
    "a word that is left out": (RomSource(3, 1), "right data", "DEPTH - 1)) ?", "DEPTH - 2)) ?"),
    "a word that goes on too long": (
        RomSource(4, 2), "right data", "HoldWidth'(HOLD - 1)", "HoldWidth'(HOLD)",
    ),
    "a word that is changed while it waits": (
        RomSource(3, 1), "stable", "if (advance) data_out <= word;", "data_out <= word;",
    ),
    "a source that runs dry": (
        RomSource(2, 1), "offered in time", "word_valid <= 1'b1;", "word_valid <= address_q == '0;",
    ),
    "words from before the reset": (
        RomSource(3, 1), "right data", "      address_q <= AddressWidth'(FirstAddress);\n", "",
    ),
    "a layer that is held too long": (
        LayerSource(2, 2, layers=2, walks=2), "right data", ".COUNT(HOLD)", ".COUNT(HOLD + 1)",
    ),
    "a word that passes a stall": (
        LayerSource(2, 1, layers=3), "right data", "step(read && last_hold)", "step(last_hold)",
    ),
    "a walk too few": (
        LayerSource(1, 2, layers=3, walks=3), "right data", ".WALKS(WALKS)", ".WALKS(WALKS - 1)",
    ),
    "a last round that goes back, too": (
        LoopExit(1, 2, 3), "feedback offered in time", "sent && !last", "sent",
    ),
    "a beat that goes back to nobody": (
        LoopExit(1, 2, 3), "moves along", "sent && returned;", "sent;",
    ),
    "a round that ends too early": (
        LoopExit(1, 3, 4), "taken in time", ".COUNT(BEATS)", ".COUNT(BEATS - 1)",
    ),
    "a beat that goes on twice": (
        LoopExit(1, 2, 3, True), "not invented", "data_in_valid && returned &&", "data_in_valid &&",
    ),
    "a beat that goes back twice": (
        LoopExit(1, 2, 3, True), "moves along", "data_in_valid && sent && !last",
        "data_in_valid && !last",
    ),
    "a last round that waits for what goes back": (
        LoopExit(1, 2, 3, True), "taken in time", "feedback_ready || last", "feedback_ready",
    ),
    "a burst too many": (PORT, "not too many", "CountWidth'(OUTSTANDING - 1)", "'1"),
    "beats for another requester": (
        PORT, "right source", "number = ID_WIDTH'(i)", "number = ID_WIDTH'(0)",
    ),
    "the length of another request": (
        PORT, "right burst", "request_length[i]", "request_length[0]",
    ),
    "a burst that changes while it waits": (
        PORT, "stable", "accept = (!m_axi_arvalid || m_axi_arready) && !full_q",
        "accept = !full_q",
    ),
    "a requester that is always first": (
        PORT, "granted in turn", "next_q <= after", "next_q <= '0",
    ),
    "an error that is not told": (PORT, "error told", " || outstanding_q == '0", ""),
    "a beat more than there is room for": (
        SOURCE, "u buffer.u level.in range", "Places = BUFFER_BEATS + 1",
        "Places = BUFFER_BEATS + 2",
    ),
    "a last burst of full length": (
        SOURCE, "right burst", "last ? 8'(LastBeats - 1) :", "last ? 8'(BURST_BEATS - 1) :",
    ),
    "bursts that lie too near": (
        SOURCE, "right burst", "* ADDRESS_WIDTH'(BurstBytes)", "* ADDRESS_WIDTH'(BurstBytes - 1)",
    ),
    "a place that is not given back": (
        SOURCE, "asked in time", "CreditWidth'(leave)", "CreditWidth'(leave && !ask)",
    ),
    "a beat that is dropped": (
        SOURCE, "offered in time", ".data_in_valid(beat_valid)",
        ".data_in_valid(beat_valid && !credit_q[0])",
    ),
}  # fmt: skip


PROVED = [
    Fork(2), Join(3), Gearbox(4, 3, 3), Gearbox(2, 3, 2), *RomSource.proofs(),
    *LayerSource.proofs()[2:4], LoopExit(1, 2, 3), LoopExit(1, 2, 3, True), PORT, SOURCE,
]  # fmt: skip
MORE_PROVED = [
    part
    for cls in (LayerSource, LoopExit, AxiReadPort, AxiSource)
    for part in cls.proofs()
    if part not in PROVED
]


@pytest.mark.first(3)
@pytest.mark.parametrize("part", [*PROVED, *MORE_PROVED], ids=str)
def test_a_part_is_proved_whole(part):
    rows = list(prove_part(part, limit_seconds=LIMIT_SECONDS))
    assert {row.claim for row in rows} >= {"stable", "not invented", "offered in time"}
    for row in rows:
        wanted = "reached" if row.claim.startswith("reach") else "proved"
        assert row.verdict.status == wanted, (row.claim, row.said)


@pytest.mark.first(5)
@pytest.mark.parametrize("fault", BROKEN)
def test_a_part_that_is_broken_on_purpose_fails(fault):
    part, breach, old, new = BROKEN[fault]
    text = library()[part.module]
    assert text.count(old) == 1
    texts = {part.module: text.replace(old, new)}
    rows = prove_part(part, limit_seconds=LIMIT_SECONDS, texts=texts)
    assert breach in {row.claim for row in rows if row.verdict.status == "refuted"}


def test_parts_are_found_by_name_and_by_module():
    report = prove("mase_stream_join", limit_seconds=LIMIT_SECONDS, samples=1)
    assert {row.cell for row in report.rows} == {"Join"}
    assert not report.refuted
    assert {cls.__name__ for cls in parts()} == {
        "Fork", "Join", "Gearbox", "RomSource", "LayerSource", "LoopExit",
        "AxiReadPort", "AxiSource",
    }  # fmt: skip


def test_a_cell_of_a_design_is_the_part_with_its_parameters():
    port = Port((StreamField("", 1, 4),), 12)
    image = Image.of_octets(4, lambda: np.zeros((12, 1), np.uint8))
    source = LayerSourceCell(port, image, 3, 2, layers=2, walks=4)
    assert part_of(source) == LayerSource(3, 2, layers=2, walks=4)
    assert part_of(StreamFork(3)) == Fork(3)
    assert part_of(ExitCell(port, 12, 3)) == LoopExit(4, 12, 3)
    assert part_of(AxiReadPortCell(2, 32, 64, 1, 4)) == AxiReadPort(2, 32, 64, 1, 4)
    region = AxiSourceCell(port, 0, 12, 2, 64, 32, 4096, 2, 4)
    assert part_of(region) == AxiSource(4, 12, 2, 64, 32, 4096, 2, 4)
    # Too many beats, or bits, to be proved in minutes.
    assert part_of(replace(source, walks=1000)) is None
    assert part_of(replace(region, words=1000)) is None
