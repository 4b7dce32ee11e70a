"""The hardware cost of a node in each format of its operands, from the components of its cells."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import Any

from torch.fx import Node

from mase_hw.emit.flow import lowered
from mase_hw.errors import MaseError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, keeps_format, shares_format, stream_operands
from mase_hw.hardware.estimate import Estimate, of_cells
from mase_hw.hardware.explore import with_orders
from mase_hw.ops import Call, Numeric
from mase_hw.passes.hardware.parallelism import assign_parallelism_transform_pass
from mase_hw.precision.space import Operand, Option, operator_of

# A parallelism, see `mase_hw.emit_verilog`.
Lanes = int | str | Mapping[str, Any]
Prices = dict[Hashable, Estimate | None]


def with_lanes(mg: MaseGraph, parallelism: Lanes) -> MaseGraph:
    """Return a quantised graph whose streams have orders and a parallelism.

    Raises:
        UnsupportedError: with everything that has no hardware.
    """
    mg = with_orders(lowered(mg))
    return assign_parallelism_transform_pass(mg, {"parallelism": parallelism})[0]


def costs_of(mg: MaseGraph) -> dict[str, Estimate]:
    """Return the cost of each node of such a graph by name, without the queues between them."""
    return {node.name: _own(mg.call(node)) for node in mg.nodes if node.op == "call_function"}


def cost_of(mg: MaseGraph) -> Estimate:
    """Return the cost of all nodes of such a graph."""
    return reduce(add, costs_of(mg).values(), Estimate())


def _own(call: Call) -> Estimate:
    return of_cells(call.operator.hardware(call).cells.values())


class CostTable:
    """Costs of nodes by the formats of their operands; nodes that are alike are asked once.

    Args:
        mg: a quantised graph `with_lanes`, whose nodes have the names of the operands'.
        prices: prices of nodes that are alike, to which more are added.
    """

    def __init__(self, mg: MaseGraph, prices: Prices | None = None) -> None:
        self._calls = {node.name: mg.call(node) for node in mg.nodes if node.op == "call_function"}
        self._prices = {} if prices is None else prices

    def of(self, node: Node, chosen: Mapping[str, Option]) -> Estimate | None:
        """Return the cost of a node with some formats in place of its own; None without hardware.

        Options are by operand, the result `data_out_0`. A node that the hardware does not have by
        itself costs nothing.
        """
        call = self._calls.get(node.name)
        if call is None:
            return Estimate()
        specs = {**call.operands, **call.results}
        key = (
            call.operator.name,
            tuple((name, spec.shape, spec.parallelism) for name, spec in specs.items()),
            repr(sorted(call.attributes.items())),
            frozenset(call.constants),
            tuple((name, option.kind) for name, option in sorted(chosen.items())),
        )
        if key not in self._prices:
            call = in_formats(call, chosen)
            try:
                self._prices[key] = None if call.operator.problems(call) else _own(call)
            except MaseError:
                # Lanes that do not divide its blocks, or numbers that its tables do not hold.
                self._prices[key] = None
        return self._prices[key]

    def producer_cost(self, operand: Operand, option: Option) -> Estimate | None:
        """Return the cost of producing an operand in a format, beyond that of the reference.

        It is the rounding of the node before, and all of those between that keep the format;
        consumers of one tensor bear it together. None where the node before cannot round to it.
        """
        total = Estimate()
        for node in makers(operand):
            names = list(common(node).results)
            if keeps_format(node):
                names += [name for name, _ in stream_operands(node)]
            usual = self.of(node, {})
            if usual is None or option.number_format.name not in operator_of(node).formats:
                # A cast follows.
                continue
            cost = self.of(node, dict.fromkeys(names, option))
            if cost is None:
                return None
            total += (cost - usual) / max(len(node.users), 1)
        return total


def in_formats(call: Call, chosen: Mapping[str, Option]) -> Call:
    """Return a call with some formats in place of its own; `data_out_0` is the result."""
    formats = {name: option.number_format for name, option in chosen.items()}
    if "data_out_0" in formats and Numeric.of(call.operator).shares_format:
        formats = dict.fromkeys([*call.operands, *call.results], formats["data_out_0"])
    return call.with_formats(formats)


def makers(operand: Operand) -> Iterator[Node]:
    """Yield the nodes whose results an operand is, and those between that keep the format."""
    for name, node in stream_operands(operand.node):
        maker: Node | None = node if name == operand.name or shares_format(operand.node) else None
        while maker is not None and maker.op == "call_function":
            yield maker
            maker = stream_operands(maker)[0][1] if keeps_format(maker) else None
