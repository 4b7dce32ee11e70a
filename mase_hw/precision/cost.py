"""The hardware cost of a node in each format of its operands, from the components of its cells."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from torch.fx import Node

from mase_hw.cells import Netlist
from mase_hw.emit.flow import lowered
from mase_hw.errors import MaseError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.graph.streams import stream_operands
from mase_hw.hardware.estimate import Estimate, of_components
from mase_hw.hardware.explore import BRAM_LUT, DSP_LUT
from mase_hw.ops import Call, Numeric
from mase_hw.passes.formats.shared_formats import keeps_format, shares_format
from mase_hw.passes.hardware.broadcast import insert_broadcasts_transform_pass
from mase_hw.passes.hardware.end_rows import end_rows_analysis_pass
from mase_hw.passes.hardware.orders import assign_orders_transform_pass
from mase_hw.passes.hardware.parallelism import assign_parallelism_transform_pass
from mase_hw.precision.operands import Operand, Option, operator_of

# A parallelism, see `mase_hw.emit_verilog`.
Lanes = int | str | Mapping[str, Any]
Prices = dict[Hashable, "Cost | None"]


@dataclass(frozen=True)
class Cost:
    """What a choice takes.

    Attributes:
        lut: look-up tables.
        dsp: DSP blocks.
        bram: block RAMs.
        memory_bits: bits of memories.
    """

    lut: float = 0.0
    dsp: float = 0.0
    bram: float = 0.0
    memory_bits: float = 0.0

    @property
    def weighed(self) -> float:
        """Look-up tables, a DSP block and a block RAM as many as in `explore`."""
        return self.lut + DSP_LUT * self.dsp + BRAM_LUT * self.bram

    @property
    def order(self) -> tuple[float, float]:
        """What less is better of: the weighed cost, then bits of memories."""
        return self.weighed, self.memory_bits

    def __add__(self, other: Cost) -> Cost:
        return self._joined(other, 1)

    def __sub__(self, other: Cost) -> Cost:
        return self._joined(other, -1)

    def over(self, count: int) -> Cost:
        """Return an equal part of it."""
        return Cost(self.lut / count, self.dsp / count, self.bram / count, self.memory_bits / count)

    def _joined(self, other: Cost, sign: int) -> Cost:
        return Cost(
            self.lut + sign * other.lut,
            self.dsp + sign * other.dsp,
            self.bram + sign * other.bram,
            self.memory_bits + sign * other.memory_bits,
        )

    @classmethod
    def of(cls, found: Estimate) -> Cost:
        """Return the cost of an estimate."""
        return cls(found.lut, found.dsp, found.bram, found.memory_bits)

    def to_dict(self) -> dict[str, float]:
        """Return the fields as values of JSON."""
        return {
            "lut": round(self.lut),
            "dsp": self.dsp,
            "bram": self.bram,
            "memory_bits": self.memory_bits,
        }


def with_lanes(mg: MaseGraph, parallelism: Lanes) -> MaseGraph:
    """Return a quantised graph whose streams have orders and a parallelism.

    Raises:
        UnsupportedError: with everything that has no hardware.
    """
    mg, _ = assign_orders_transform_pass(lowered(mg))
    mg, _ = insert_broadcasts_transform_pass(mg)
    mg, _ = end_rows_analysis_pass(mg)
    return assign_parallelism_transform_pass(mg, {"parallelism": parallelism})[0]


def costs_of(mg: MaseGraph) -> dict[str, Cost]:
    """Return by name what the nodes of such a graph take, without the queues between them."""
    nodes = [node for node in mg.nodes if node.op == "call_function"]
    return {node.name: _of_call(mg.call(node)) for node in nodes}


def cost_of(mg: MaseGraph) -> Cost:
    """Return what all nodes of such a graph take."""
    return reduce(add, costs_of(mg).values(), Cost())


def _of_call(call: Call) -> Cost:
    return cost_of_netlist(call.operator.hardware(call))


def cost_of_netlist(netlist: Netlist) -> Cost:
    """Return what the cells of a node take."""
    cells = netlist.cells.values()
    # The words of memories would take long to compute and change little.
    return Cost.of(
        reduce(add, (of_components(cell.components, contents=False) for cell in cells), Estimate())
    )


class CostTable:
    """Costs of nodes by the formats of their operands; nodes that are alike are asked once.

    Args:
        mg: a quantised graph `with_lanes`, whose nodes have the names of the operands'.
        known: prices of nodes that are alike, to which more are added.
    """

    def __init__(self, mg: MaseGraph, known: Prices | None = None) -> None:
        self._calls = {node.name: mg.call(node) for node in mg.nodes if node.op == "call_function"}
        self._known = {} if known is None else known

    def of(self, node: Node, chosen: Mapping[str, Option]) -> Cost | None:
        """Return the cost of a node with some formats in place of its own; None without hardware.

        A node that the hardware does not have by itself costs nothing.

        Args:
            node: the node.
            chosen: options by operand; `data_out_0` is the result.
        """
        call = self._calls.get(node.name)
        if call is None:
            return Cost()
        kinds = tuple((name, option.kind) for name, option in sorted(chosen.items()))
        key = _likeness(call), kinds
        if key not in self._known:
            self._known[key] = self._asked(call, chosen)
        return self._known[key]

    def made(self, operand: Operand, option: Option) -> Cost | None:
        """Return what it takes to make an operand in a format, beyond that of the reference.

        It is the rounding of the node before, and all of those between that keep the format;
        consumers of one tensor bear it together. None where the node before cannot round to it.
        """
        total = Cost()
        for node in makers(operand):
            names = list(common(node).results)
            if keeps_format(node):
                names += [name for name, _ in stream_operands(node)]
            usual = self.of(node, {})
            if usual is None or option.number_format.name not in operator_of(node).formats:
                # A cast follows.
                continue
            found = self.of(node, dict.fromkeys(names, option))
            if found is None:
                return None
            total += (found - usual).over(max(len(node.users), 1))
        return total

    @staticmethod
    def _asked(call: Call, chosen: Mapping[str, Option]) -> Cost | None:
        call = in_formats(call, chosen)
        try:
            if call.operator.problems(call):
                return None
            return _of_call(call)
        except MaseError:
            # Lanes that do not divide its blocks, or numbers that its tables do not hold.
            return None


def in_formats(call: Call, chosen: Mapping[str, Option]) -> Call:
    """Return a call with some formats in place of its own; `data_out_0` is the result."""
    formats = {name: option.number_format for name, option in chosen.items()}
    if "data_out_0" in formats and Numeric.of(call.operator).shares_format:
        formats = dict.fromkeys([*call.operands, *call.results], formats["data_out_0"])
    return call.with_formats(formats)


def makers(operand: Operand) -> Iterator[Node]:
    """Yield the nodes whose results an operand is, and those between that keep the format."""
    for name, node in stream_operands(operand.node):
        made: Node | None = node if name == operand.name or shares_format(operand.node) else None
        while made is not None and made.op == "call_function":
            yield made
            made = stream_operands(made)[0][1] if keeps_format(made) else None


def _likeness(call: Call) -> Hashable:
    specs = {**call.operands, **call.results}
    sizes = tuple((name, spec.shape, spec.parallelism) for name, spec in specs.items())
    return (
        call.operator.name,
        sizes,
        repr(sorted(call.attributes.items())),
        frozenset(call.constants),
    )
