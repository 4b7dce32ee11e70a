"""The base of operators that reorder codes and compute nothing."""

from __future__ import annotations

from mase_hw.cells import Netlist
from mase_hw.formats import SCALARS, SCALED, Family
from mase_hw.ops._base import Call, Operator, Reference
from mase_hw.ops._numbers import Numeric


class Moves(Operator, Numeric):
    """Codes of any format whose elements stand by themselves, as they are."""

    keeps_format = True
    casts = False
    families = SCALARS | SCALED

    def operations(self, call: Call) -> int:
        return 0


class Wire(Moves):
    """The identity, which leaves the graph where it is one: codes of any format, as they are."""

    families = frozenset(Family)

    def reference(self, call: Call) -> Reference:
        return lambda codes: codes

    def hardware(self, call: Call) -> Netlist:
        return Netlist.wire(call.ports)

    def block_axis(self, name: str) -> int | None:
        return None

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if call.operands["data_in_0"].format != call.result.format:
            problems.append(
                "its result has another format than its operand: configure one for both"
            )
        return problems
