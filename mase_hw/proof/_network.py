"""Gates that are made one by one, written as a circuit for ABC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TRUE, FALSE = 1, 0
# In place of the first operand, for an input.
INPUT = -1


class Network:
    """Gates that are made one by one, and asked of a SAT solver."""

    def __init__(self) -> None:
        self.inputs = 0
        self.gates: list[tuple[int, int]] = []
        self._known: dict[tuple[int, int], int] = {}
        # An input that nothing depends on.
        self.idle = self.input()

    def input(self) -> int:
        """Return the literal of a new input."""
        self.inputs += 1
        return self._node((INPUT, self.inputs))

    def _node(self, gate: tuple[int, int]) -> int:
        self.gates.append(gate)
        return 2 * len(self.gates)

    def both(self, left: int, right: int) -> int:
        """Return the literal of a conjunction."""
        left, right = max(left, right), min(left, right)
        if right == FALSE or left == right ^ 1:
            return FALSE
        if right == TRUE or left == right:
            return left
        key = (left, right)
        if key not in self._known:
            self._known[key] = self._node(key)
        return self._known[key]

    def all(self, literals: Sequence[int]) -> int:
        """Return the literal of the conjunction of many."""
        conjunction = TRUE
        for literal in literals:
            conjunction = self.both(conjunction, literal)
        return conjunction

    def any(self, literals: Sequence[int]) -> int:
        """Return the literal of the disjunction of many."""
        return self.all([literal ^ 1 for literal in literals]) ^ 1

    def differ(self, left: int, right: int) -> int:
        """Return the literal of the exclusive disjunction."""
        return self.any([self.both(left, right ^ 1), self.both(left ^ 1, right)])

    def choose(self, bit: int, high: int, low: int) -> int:
        """Return the literal of `high` where a bit is set, else of `low`."""
        if high == low:
            return high
        return self.any([self.both(bit, high), self.both(bit ^ 1, low)])

    def needed_inputs(self, outputs: Sequence[int]) -> list[int]:
        """Return the places of the inputs that literals depend on, in order."""
        return sorted(p for p in self.cone(outputs) if self.gates[p - 1][0] == INPUT)

    def text(
        self,
        outputs: Sequence[int],
        registers: Mapping[int, int] | None = None,
        inputs: Sequence[int] | None = None,
    ) -> bytes:
        """Return the network with some outputs in the binary format AIGER.

        Args:
            outputs: their literals.
            registers: the next value of each input that is a register, which starts with 0.
            inputs: places of the inputs that are written, all unless given.
        """
        following = {literal >> 1: value for literal, value in (registers or {}).items()}
        places = range(1, len(self.gates) + 1)
        if inputs is None:
            inputs = [place for place in places if self.gates[place - 1][0] == INPUT]
        free = [place for place in inputs if place not in following]
        needed = self.cone([*outputs, *following.values()])
        gates = [place for place in sorted(needed) if self.gates[place - 1][0] != INPUT]
        order = {0: 0}
        for number, place in enumerate((*free, *following, *gates), 1):
            order[place] = number

        def renamed(literal: int) -> int:
            return 2 * order[literal >> 1] + (literal & 1)

        data = bytearray()
        for place in gates:
            right, left = sorted(renamed(literal) for literal in self.gates[place - 1])
            for value in (2 * order[place] - left, left - right):
                rest = value
                while rest >= 128:
                    data.append(rest & 127 | 128)
                    rest >>= 7
                data.append(rest)
        header = f"aig {len(order) - 1} {len(free)} {len(following)} {len(outputs)} {len(gates)}\n"
        lines = [renamed(value) for value in (*following.values(), *outputs)]
        return (header + "".join(f"{line}\n" for line in lines)).encode() + bytes(data)

    def cone(self, literals: Sequence[int]) -> set[int]:
        """Return the places of the gates and inputs that literals depend on."""
        reached: set[int] = {0}
        waiting = [literal >> 1 for literal in literals]
        while waiting:
            place = waiting.pop()
            if place not in reached:
                reached.add(place)
                gate = self.gates[place - 1]
                if gate[0] != INPUT:
                    waiting += [gate[0] >> 1, gate[1] >> 1]
        reached.discard(0)
        return reached
