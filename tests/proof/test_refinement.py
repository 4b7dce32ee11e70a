"""What a counterexample to induction asks for is found in runs, and said as it holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mase_hw.cells import Port
from mase_hw.cells.cat import Cat
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.emit.library import library
from mase_hw.formats import StreamField
from mase_hw.proof import prove_cell, subjects
from mase_hw.proof._features import Alike, Barred, Number, data_registers, features
from mase_hw.proof._network import TRUE, Network
from mase_hw.proof._refinement import Refinement, Seen
from mase_hw.proof._solver import solver
from mase_hw.proof._transition import Transition

BITS = 6
EVERY = (np.arange(1 << BITS)[:, None] >> np.arange(BITS) & 1).astype(np.uint8)


def value(feature, row) -> int:
    """Return what the gates of a feature say of a state."""
    network = Network()
    bits = feature.bits(network, [TRUE if bit else 1 - TRUE for bit in row])
    return sum((bit == TRUE) << place for place, bit in enumerate(bits))


@given(
    st.lists(st.tuples(st.integers(0, BITS - 1), st.integers(-9, 9)), min_size=1, max_size=8),
    st.integers(1, 5),
)
def test_gates_of_a_sum_say_what_its_codes_say(terms, width):
    number = Number(tuple(terms), width)
    assert [value(number, row) for row in EVERY] == number.codes(EVERY).tolist()


def test_gates_of_what_is_alike_say_what_its_codes_say():
    alike = Alike((0, 1), (4, 2))
    assert [value(alike, row) for row in EVERY] == alike.codes(EVERY).tolist()
    assert alike.codes(EVERY).sum() == 1 << (BITS - 2)


def test_barred_values_are_those_that_are_not_allowed():
    """Of a number of two bits and a bit: the value 2 with 1 is barred."""
    pair, bit = Number(((0, 1), (1, 2)), 2), Number(((3, 1),), 1)
    barred = Barred((pair, bit), tuple(code != 4 + 2 for code in range(8)))
    for row in EVERY:
        network = Network()
        said = barred.holds(network, [TRUE if one else 1 - TRUE for one in row]) == TRUE
        assert said == (row[:2].tolist() + row[3:4].tolist() != [0, 1, 1])


def test_what_never_comes_together_is_found():
    """Three bits of which any two take all values, and whose sum is even."""
    states = np.repeat(EVERY[EVERY[:, :3].sum(axis=1) % 2 == 0], 20, axis=0)
    seen = Seen(states, [Number(((bit, 1),), 1) for bit in range(BITS)])
    first, *_ = seen.never({0: 1, 1: 1, 2: 1, 4: 0})
    assert first == (0, 1, 2)
    allowed = seen.allowed(first, {0: 1, 1: 1, 2: 1}, alone=False)
    assert allowed == tuple(code.bit_count() % 2 == 0 for code in range(8))
    alone = seen.allowed(first, {0: 1, 1: 1, 2: 1}, alone=True)
    assert alone == tuple(code != 7 for code in range(8))


def test_values_that_a_run_has_are_not_barred():
    seen = Seen(EVERY, [Number(((bit, 1),), 1) for bit in range(BITS)])
    assert not list(seen.never({0: 1, 1: 0, 5: 1}))


def queue() -> Transition:
    """Return a register of data behind another one, and what entered; control is a valid bit.

    Registers are 0: valid, 1: first, 2: second, 3: kept_q, 4: earlier_q; inputs 1: take, 2: data.
    """
    take, data = 2, 4
    valid, first, _, kept, _ = (2 * (3 + place) for place in range(5))
    # kept' = take ? data : kept
    gates = ((take, data), (take ^ 1, kept), (2 * 8 + 1, 2 * 9 + 1))
    return Transition(
        inputs=2,
        latches=((take, 0), (data, None), (first, None), (2 * 10 + 1, None), (valid, 0)),
        bad=(),
        constraints=(),
        gates=gates,
    )


def test_registers_of_data_are_those_that_inputs_of_data_reach():
    found = data_registers(queue(), range(5), kept=[3], control=[0, 4])
    assert found == {1, 2, 3}


def test_features_name_lanes_of_data_and_counts_of_control():
    states = EVERY[:, :5]
    groups = {"valid_q": [0], "one": [1], "two": [2], "kept_q": [3], "earlier_q": [4]}
    whole, _ = features(states, groups, ["one", "two"], {1})
    assert {item for item in whole if isinstance(item, Alike)} == {
        Alike((1,), (3,)),
        Alike((2,), (3,)),
    }


def test_data_of_a_register_is_where_valid_says(tmp_path):
    """The second cycle after a beat was taken, it is in the second register."""
    base = queue()
    valid, second, kept, old = (2 * (3 + place) for place in (0, 2, 3, 4))
    # A beat that came two cycles ago, none since, is not in the second register.
    both, alike = 2 * 11, (2 * 12, 2 * 13)
    gates = (
        *base.gates,
        (old, valid ^ 1),
        (second, kept),
        (second ^ 1, kept ^ 1),
        (alike[0] ^ 1, alike[1] ^ 1),
        (both, 2 * 14),
    )
    circuit = Transition(base.inputs, base.latches, (2 * 15,), (), gates)
    # States of all runs: what is taken is in the first register, then in the second one.
    rows = np.unique(
        [
            (new, first, before if late else junk, first if new else before, late)
            for new in (0, 1) for late in (0, 1) for first in (0, 1)
            for before in (0, 1) for junk in (0, 1)
        ],
        axis=0,
    ).astype(np.uint8)  # fmt: skip
    groups = {"valid_q": [0], "one": [1], "two": [2], "kept_q": [3], "earlier_q": [4]}
    states = np.repeat(rows, 50, axis=0)
    whole, single = features(states, groups, ["one", "two"], {1})
    looked = [*whole, *single]
    refinement = Refinement(
        circuit,
        set(),
        [],
        [0],
        looked,
        len(whole),
        Seen(states, looked),
        [1, 2],
        solver(),
        tmp_path,
    )
    claims = refinement.found(20.0)
    assert claims
    told = Alike((1,), (3,))
    assert any(told in claim.features for claim in claims)


def is_proved(cell) -> bool:
    rows = prove_cell(cell, limit_seconds=20.0)
    return {row.verdict.status for row in rows} <= {"proved", "reached"}


def test_what_a_memory_holds_is_proved():
    """A search over clauses found no end of this one."""
    assert is_proved(StreamFifo(Port((StreamField("", 1, 2),), 1), 8))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_what_joined_streams_show_is_proved(number):
    assert is_proved(subjects(Cat)[number])


def test_a_queue_that_reads_the_wrong_place_is_refuted():
    port = Port((StreamField("", 1, 2),), 1)
    text = library()["mase_stream_fifo"]
    wrong = text.replace("waiting ? memory[read_q]", "waiting ? memory[read_q ^ 1'b1]")
    assert wrong != text
    rows = prove_cell(StreamFifo(port, 8), limit_seconds=8.0, texts={"mase_stream_fifo": wrong})
    assert {row.claim for row in rows if row.verdict.status == "refuted"} == {"right data"}
