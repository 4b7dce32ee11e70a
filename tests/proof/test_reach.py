"""All states of a circuit: what is proved in them holds, and of small circuits that is all."""

from itertools import product

import numpy as np
import pytest

from mase_hw import _native as build
from mase_hw.cells import Port
from mase_hw.cells.cat import Cat
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.cells.stream_replay import StreamReplay
from mase_hw.emit.design import library
from mase_hw.errors import ToolError
from mase_hw.formats import StreamField
from mase_hw.proof import _reach as reach_module
from mase_hw.proof import _solver as solver
from mase_hw.proof import prove_cell, subjects
from mase_hw.proof._reach import Reach, data_registers
from mase_hw.proof._transition import Transition

INPUTS, REGISTERS, GATES = 3, 6, 40
NAMED = {place: (f"in_{place}", 0) for place in range(INPUTS)}


def circuit_of(seed: int, first: int | None) -> Transition:
    """Return random gates, claims and a rule; registers begin with 0, 1 or `first`."""
    chance = np.random.default_rng(seed)
    sources = 1 + INPUTS + REGISTERS
    gates = []
    for number in range(GATES):
        left, right = chance.integers(0, 2 * (sources + number), 2)
        gates.append((int(left), int(right)))

    def literals(count: int) -> list[int]:
        return chance.integers(0, 2 * (sources + GATES), count).tolist()

    firsts = [(0, 1, first)[kind] for kind in chance.integers(0, 3, REGISTERS)]
    following = literals(REGISTERS)
    # A rule on few inputs leaves most states something to do.
    left, right = (int(item) for item in chance.integers(2, 2 * sources, 2))
    gates.append((left, right))
    rule = 2 * (sources + GATES) + 1
    # Claims see what the rule sees; what they do not see may be anything.
    claims = (*literals(6), left, right)
    latches = tuple(zip(following, firsts, strict=True))
    return Transition(INPUTS, latches, claims, (rule,), tuple(gates))


def concrete(circuit: Transition) -> tuple[int, set[int]]:
    """Return how many states follow the first ones, those included, and the claims that hold."""
    inputs = list(product((0, 1), repeat=INPUTS))
    firsts = [(0, 1) if first is None else (first,) for _, first in circuit.latches]
    waiting = list(product(*firsts))
    known, held = set(waiting), set(circuit.bad)
    while waiting:
        state = waiting.pop()
        for given in inputs:
            values = [0, *given, *state]
            for left, right in circuit.gates:
                one, two = (values[item >> 1] ^ item & 1 for item in (left, right))
                values.append(one & two)
            if not all(values[item >> 1] ^ item & 1 for item in circuit.constraints):
                continue
            held -= {item for item in circuit.bad if values[item >> 1] ^ item & 1}
            after = tuple(values[item >> 1] ^ item & 1 for item, _ in circuit.latches)
            if after not in known:
                known.add(after)
                waiting.append(after)
    return len(known), held


def whole(circuit: Transition):
    return Reach(circuit, circuit.bad, NAMED, {}, range(REGISTERS)).found(20.0)


def test_in_states_without_doubt_exactly_what_holds_is_proved():
    claims, most = [], 0
    for seed in range(50):
        circuit = circuit_of(seed, 1)
        states, held = concrete(circuit)
        found = whole(circuit)
        assert found.claims == held, seed
        # Registers that no claim sees are not looked at.
        assert found.states <= states, seed
        claims.append(len(found.claims) / len(set(circuit.bad)))
        most = max(most, found.states)
    # Some of each kind are proved, and some are not.
    assert max(claims) > 0 and min(claims) < 1 and most > 8


def test_what_may_be_anything_at_first_or_is_forgotten_proves_nothing_wrong():
    """Two registers pose as what is followed: they and what depends on them may be anything."""
    followed = {"kept_q": [0], "spot_q": [1], "earlier_q": [2, 3]}
    for seed in range(150, 200):
        circuit = circuit_of(seed, None)
        assert whole(circuit).claims <= concrete(circuit)[1], seed
    for seed in range(300, 350):
        circuit = circuit_of(seed, 0)
        found = Reach(circuit, circuit.bad, NAMED, followed, [4, 5]).found(20.0)
        assert found.claims <= concrete(circuit)[1], seed


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


QUEUE = "mase_stream_fifo"
BIT = Port((StreamField("", 1, 1),), 2)
WRONG = {
    "a queue reads the wrong place": (
        StreamFifo(BIT, 3), QUEUE, "memory[read_q]", "memory[read_q ^ 1]",
    ),
    "a block is replayed too often": (
        StreamReplay(BIT, 2, 2), "mase_stream_replay", ".COUNT(REPEATS)", ".COUNT(REPEATS + 1)",
    ),
}  # fmt: skip


@pytest.fixture
def alone(monkeypatch):
    """Switch every other search off."""
    monkeypatch.setattr(solver.Circuit, "_prove", lambda *_: solver.Verdict("bounded", 0))
    monkeypatch.setattr(solver.Circuit, "induce", lambda *_: None)
    monkeypatch.setattr(solver, "MOST_CYCLES", 2)


def verdicts(cell, texts=None):
    return {
        row.claim: row.verdict.status
        for row in prove_cell(cell, limit_seconds=20.0, texts=texts)
        if row.verdict.status != "simulated"
    }


@pytest.mark.full
@pytest.mark.parametrize("fault", WRONG)
def test_what_is_broken_on_purpose_is_not_proved(alone, fault):
    cell, module, old, new = WRONG[fault]
    right = verdicts(cell)
    assert right["right data"] == right["offered in time"] == right["not invented"] == "proved"
    text = library()[module]
    assert old in text
    assert verdicts(cell, {module: text.replace(old, new)})["right data"] != "proved"


@pytest.mark.full
def test_what_joined_streams_show_is_proved(alone):
    assert verdicts(subjects(Cat)[1])["right data"] == "proved"


@pytest.mark.full
def test_states_are_told_in_the_verdict(alone):
    rows = {row.claim: row for row in prove_cell(StreamFifo(BIT, 3), limit_seconds=20.0)}
    states = rows["right data"].verdict.states
    assert states > 50
    assert rows["right data"].said == f"proved in all {states:,} states"


def test_inputs_that_only_rules_see_are_not_tried():
    """A register stays what it was; forty inputs are ruled by each other alone."""
    count = 40
    first = 1 + count + 1
    gates = [(2, 4), *((2 * (first + place), 6 + 2 * place) for place in range(count - 2))]
    rule = 2 * (first + len(gates) - 1)
    own = 2 * (1 + count)
    circuit = Transition(count, ((own, 0),), (own,), (rule,), tuple(gates))
    named = {place: (f"in_{place}", 0) for place in range(count)}
    assert Reach(circuit, circuit.bad, named, {}, [0]).found(5.0).claims == {own}


def test_too_many_inputs_are_not_tried():
    """As many registers take inputs as they are: of each any value leads to another state."""
    count = 20
    latches = tuple((2 * (1 + place), 0) for place in range(count))
    first = 1 + 2 * count
    gates = [(2 * (1 + count), 2 * (2 + count))]
    gates += [(2 * (first + place), 2 * (3 + count + place)) for place in range(count - 2)]
    circuit = Transition(count, latches, (2 * (first + len(gates) - 1),), (), tuple(gates))
    named = {place: (f"in_{place}", 0) for place in range(count)}
    assert Reach(circuit, circuit.bad, named, {}, range(count)).found(5.0) is None


def test_without_room_or_time_nothing_is_proved(monkeypatch):
    circuit = circuit_of(0, 1)
    assert Reach(circuit, circuit.bad, NAMED, {}, ()).found(0.0) is None
    monkeypatch.setattr(reach_module, "_most_mebibytes", lambda: 0)
    assert whole(circuit) is None


def test_without_a_compiler_it_is_said(monkeypatch):
    monkeypatch.setattr(build, "cpp_compiler", lambda: None)
    monkeypatch.setattr(reach_module, "_library", reach_module._library.__wrapped__)
    with pytest.raises(ToolError, match="no C\\+\\+ compiler was found"):
        whole(circuit_of(0, 1))
