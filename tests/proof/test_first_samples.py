"""What comes after a reset does not depend on what was there before, of cells as of broken ones."""

import pytest

from mase_hw.cells import Port, cells
from mase_hw.cells.argmax import Argmax
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.emit.design import library
from mase_hw.formats import StreamField
from mase_hw.proof import prove_start, subjects


def verdicts(cell, changes=(), limit_seconds=20.0):
    """Return what becomes of each claim; `changes` are (module, old text, new text)."""
    texts = {}
    for module, old, new in changes:
        assert library()[module].count(old) >= 1, old
        texts[module] = library()[module].replace(old, new)
    rows = prove_start(cell, limit_seconds=limit_seconds, texts=texts)
    return {row.claim: row.verdict for row in rows}


def queue(depth):
    return StreamFifo(Port((StreamField("", 1, 2),), 1), depth)


def narrowest(cls):
    def bits(cell):
        return sum(port.width_bits for port in (*cell.inputs.values(), *cell.outputs.values()))

    return min(subjects(cls), key=bits)


def test_a_queue_begins_anew():
    found = verdicts(queue(3))
    assert set(found) == {"same handshake", "same data", "reach results"}
    assert found["same handshake"].status == found["same data"].status == "proved"
    assert found["reach results"].status == "reached"


FAULTS = {
    "a pointer is not reset": ("read_q <= '0;", "same data"),
    "valid is not reset": ("        data_out_valid <= 1'b0;\n", "same handshake"),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_register_that_keeps_its_state_is_found(fault):
    line, claim = FAULTS[fault]
    found = verdicts(queue(3), [("mase_stream_fifo", line, "")])
    assert found[claim].status == "refuted"
    assert found[claim].fault[0].startswith("cycle 0: rst=1")


@pytest.mark.full
def test_a_sum_that_is_not_begun_anew_is_found():
    """Handshakes show nothing of it: only what is computed does."""
    wrong = [("mase_argmax", "(part_first || part.value >", "(part.value >")]
    found = verdicts(narrowest(Argmax), wrong, limit_seconds=20)
    assert found["same data"].status == "refuted"
    assert found["same handshake"].status != "refuted"


# Cells that are proved whole, for all times; of others the searches find no end in this time.
PROVED = (
    "BinaryFixed", "CastFixed", "Cat", "Centre", "ClampFixed", "CopyLanes", "Crop",
    "FloatOrder", "LoopEntry", "Lookup", "PreluFixed", "StreamFifo", "StreamReplay", "Thresholds",
    "UnaryTable", "WhereFixed",
)  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", PROVED)
def test_a_cell_begins_anew_in_any_state(name):
    (cls,) = (item for item in cells() if item.__name__ == name)
    found = verdicts(narrowest(cls), limit_seconds=240)
    assert found["same handshake"].status == found["same data"].status == "proved"
    assert found["reach results"].status == "reached"
