"""All states that a circuit comes to, of which some registers hold anything.

A register is 0, 1, or anything, and so is what gates make of it (symbolic trajectory evaluation:
Seger and Bryant, Formal Methods in System Design 1995). Before the reset every register holds
anything; from then on each state is followed by those that any inputs lead to, until there is no
new one: a claim that no inputs break in any of them holds for all times. `reach.cpp` looks at the
states.

Of data nothing is known but the lane that the harness follows (`templates/proof/cell.sv.j2`): where
it enters it is 0 and it is 1, and once nothing is followed all data is anything again.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic

import numpy as np
import numpy.typing as npt

from mase_hw._native import build_cpp, load_library
from mase_hw.proof._transition import Transition, cone, cone_registers

SOURCE = Path(__file__).with_name("reach.cpp")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fPIC", "-shared")
# The lane that is followed, and whose it is; how many results leave earlier, less than none where
# nothing is followed.
KEPT, SPOT, EARLIER = "kept_q", "spot_q", "earlier_q"
# Inputs that say what is followed from now on: they matter in few states.
CHOICES = ("arm", "choice")
# Inputs of which all values are tried in every state; those beyond, where they matter. How many may
# matter at most, and with those of data that is followed.
MOST_TRIED, MOST_CONTROL, MOST_INPUTS = 6, 16, 64
# Of the memory of the machine, what states may take.
MOST_SHARE = 6
# Seconds until an interrupt is noticed.
TURN_SECONDS = 0.5
MORE, DONE = 0, 1


@dataclass(frozen=True)
class Reached:
    """What was found.

    Attributes:
        claims: literals that are false in all states.
        states: how many there are.
        cycles: after which there is no new one.
    """

    claims: frozenset[int]
    states: int
    cycles: int


class Reach:
    """The states of a circuit.

    Args:
        circuit: one cycle.
        claims: literals that must be false.
        inputs: numbers and names of the inputs that are told apart; others are anything.
        registers: numbers of the bits of each register, the lowest first.
        control: numbers of registers that do not depend on data.
    """

    def __init__(
        self,
        circuit: Transition,
        claims: Collection[int],
        inputs: Mapping[int, tuple[str, int]],
        registers: Mapping[str, Sequence[int]],
        control: Collection[int],
    ) -> None:
        self._circuit, self._claims = circuit, list(claims)
        self._registers = cone_registers(circuit, self._claims)
        column = {place: number for number, place in enumerate(self._registers)}
        kept, earlier = registers.get(KEPT, ()), registers.get(EARLIER, ())
        excluded = {*control, *earlier}
        data = data_registers(circuit, column.keys() - excluded, kept, excluded) if kept else set()
        followed = column.keys() & {*data, *kept, *registers.get(SPOT, ())}
        following = [circuit.latches[place][0] for place in self._registers]
        literals = [*self._claims, *circuit.constraints, *following]
        named = {1 + place: name for place, name in inputs.items()}
        # What only rules see may be anything.
        matter = cone(circuit, [*self._claims, *following]) & named.keys()
        seen = sorted(matter, key=lambda place: named[place])
        told = inputs_of(circuit, kept) - inputs_of(circuit, excluded)
        control_inputs = [place for place in seen if place not in told]
        late = [place for place in control_inputs if named[place][0] in CHOICES]
        tried = [place for place in control_inputs if place not in late]
        tried, late = tried[:MOST_TRIED], [*tried[MOST_TRIED:], *late]
        alone = (cone(circuit, [rule]) & named.keys() for rule in circuit.constraints)
        ruled = {place for places in alone if len(places) == 1 for place in places}
        places, gates, first = self._placed(literals, seen)
        offset = 1 + circuit.inputs + len(circuit.latches)
        operands = [circuit.gates[place - offset] for place in gates]

        def numbered(literals: Collection[int]) -> list[int]:
            return [2 * places[literal >> 1] + (literal & 1) for literal in literals]

        nothing = column.get(earlier[-1], -1) if earlier else -1
        self._few = len(control_inputs) <= MOST_CONTROL and len(seen) <= MOST_INPUTS
        # In the order of `reach.cpp`.
        self._lists = [
            numbered([left for left, _ in operands]),
            numbered([right for _, right in operands]),
            *map(numbered, (following, circuit.constraints, self._claims)),
            *([places[place] for place in group] for group in (tried, late)),
            [places[place] for place in seen if place in told],
            [places[place] for place in tried if place in ruled],
            [column[place] for place in kept if place in column],
            [number for place, number in column.items() if place not in followed],
            [column[place] for place in followed],
            [len(places) - len(gates), first, nothing, _most_mebibytes()],
        ]

    def _placed(
        self, literals: Collection[int], inputs: Collection[int]
    ) -> tuple[dict[int, int], list[int], int]:
        """Return the place of all that literals depend on, the gates, and the first late place.

        Constants and registers come first, gates last, and of these late ones, which depend on
        inputs.
        """
        circuit = self._circuit
        first = 1 + circuit.inputs + len(circuit.latches)
        inside = sorted(cone(circuit, literals))
        changed = set(inputs)
        early: list[int] = []
        late: list[int] = []
        for place in inside:
            if place >= first:
                if changed.intersection(item >> 1 for item in circuit.gates[place - first]):
                    changed.add(place)
                (late if place in changed else early).append(place)
        registers = [1 + circuit.inputs + place for place in self._registers]
        sources = dict.fromkeys([0, *registers, *(place for place in inside if place < first)])
        places = {place: number for number, place in enumerate([*sources, *early, *late])}
        return places, [*early, *late], len(places) - len(late)

    def found(self, limit_seconds: float) -> Reached | None:
        """Look at all states; return None where time ran out, or room, or inputs are too many.

        Raises:
            ToolError: when there is no C++ compiler.
        """
        if not self._few:
            return None
        library, end = _library(), monotonic() + limit_seconds
        values = (self._circuit.latches[place][1] for place in self._registers)
        firsts = np.array([2 if value is None else value for value in values], np.uint8)
        numbers = np.array([number for part in self._lists for number in part], np.int32)
        sizes = np.array([len(part) for part in self._lists], np.int32)
        work = library.reach_begin(_pointer(numbers), _pointer(sizes), _pointer(firsts))
        counts, open_ = np.zeros(2, np.uint64), np.zeros(len(self._claims), np.uint8)
        status = MORE
        try:
            while status == MORE and (seconds := end - monotonic()) > 0:
                status = library.reach_run(work, min(seconds, TURN_SECONDS))
        finally:
            library.reach_end(work, _pointer(counts), _pointer(open_))
        if status != DONE:
            return None
        claims = frozenset(np.array(self._claims)[open_ > 0].tolist())
        return Reached(claims, int(counts[0]), int(counts[1]))


@cache
def _library() -> ctypes.CDLL:
    library = load_library(build_cpp(SOURCE, FLAGS))
    pointer = ctypes.c_void_p
    library.reach_begin.argtypes = [pointer] * 3
    library.reach_begin.restype = pointer
    library.reach_run.argtypes = [pointer, ctypes.c_double]
    library.reach_end.argtypes = [pointer] * 3
    return library


def _most_mebibytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (MOST_SHARE << 20)


def _pointer(values: npt.NDArray[np.generic]) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.ctypes.data)


def inputs_of(circuit: Transition, registers: Collection[int]) -> set[int]:
    """Return the inputs that the next values of some registers depend on."""
    seen = cone(circuit, [circuit.latches[place][0] for place in registers])
    return {place for place in seen if 0 < place <= circuit.inputs}


def data_registers(
    circuit: Transition, registers: Collection[int], kept: Sequence[int], control: Collection[int]
) -> set[int]:
    """Return the registers that depend on what KEPT sees of the inputs and control does not.

    Args:
        circuit: one cycle.
        registers: those that are asked for.
        kept: numbers of the bits of KEPT.
        control: numbers of the registers that control depends on.
    """
    reached = inputs_of(circuit, kept) - inputs_of(circuit, control)
    seen = {place: cone(circuit, [circuit.latches[place][0]]) for place in registers}
    dependent: set[int] = set()
    while new := {place for place in seen.keys() - dependent if seen[place] & reached}:
        dependent |= new
        reached |= {1 + circuit.inputs + place for place in new}
    return dependent
