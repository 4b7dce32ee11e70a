"""Quantised graphs as integer programs and as logic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.cells import Port
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.formats.fixed import Fixed
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.graph.loops import loops_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import CommonMetadata, HardwareMetadata
from mase_hw.graph.nodes import location, metadata, stream_operands, update
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.ops import Call, Elementwise, Stateful
from mase_hw.passes.hardware.options import Hardware
from mase_hw.unrolled.cell import Unrolled
from mase_hw.unrolled.lift import lift, tabulate
from mase_hw.unrolled.logic import Logic
from mase_hw.unrolled.program import Program
from mase_hw.unrolled.proof import prove

MODULE = "unrolled_network"
# Look-up tables of a network, at most: those of a large device.
MOST_TABLES = 1_000_000
# Of weights of six bits; a product and its sum are two operations.
TABLES_AN_OPERATION = 4
FOLD = "leave the mode folded, or compute it outside"


def program_of(mg: MaseGraph) -> Program:
    """Return the program of a graph, whose nodes are those of hardware.

    Raises:
        UnsupportedError: naming the node that has no logic, and the fix.
    """
    program, values = Program(), dict[Node, Tensor]()
    for port, node in enumerate(mg.inputs):
        number = _fixed(node)
        ends = number.minimum_code, number.maximum_code
        forms = [program.input(port, place, *ends) for place in range(spec(node).elements)]
        values[node] = torch.tensor(forms).reshape(spec(node).shape)
    for node in mg.nodes:
        if node.op == "call_function":
            program.owner = node.name
            values[node] = _lifted(program, mg.call(node), node, values)
    for node in output_nodes(mg):
        _fixed(node)
        program.outputs.append(values[node].reshape(-1).tolist())
    return program


def _lifted(program: Program, call: Call, node: Node, values: Mapping[Node, Tensor]) -> Tensor:
    operands = [values[producer] for _, producer in stream_operands(node)]
    try:
        if isinstance(call.operator, Stateful):
            raise UnsupportedError("it keeps a state from inference to inference")
        reference = call.operator.reference(call)
        try:
            result = lift(program, reference, operands)
        except UnsupportedError:
            if not isinstance(call.operator, Elementwise) or len(operands) > 1:
                raise
            result = tabulate(program, reference, operands[0], call.result.shape)
    except UnsupportedError as error:
        raise UnsupportedError(
            f"{node.name} ({location(node)}) has no unrolled logic: {error}; {FOLD}"
        ) from None
    return result.reshape(call.result.shape)


def _fixed(node: Node) -> Fixed:
    number = spec(node).format
    if not isinstance(number, Fixed):
        raise UnsupportedError(
            f"{node.name} ({location(node)}) is {number}; ports of unrolled logic are fixed point: "
            "configure it so, and casts are inserted"
        )
    return number


def logic_of(mg: MaseGraph, levels: int) -> Logic:
    """Return the logic of a graph.

    Args:
        mg: whose nodes are those of hardware.
        levels: adders of a stage.
    """
    widths = [_fixed(node).width for node in output_nodes(mg)]
    return Logic.of(program_of(mg), widths, levels)


def unrolled(mg: MaseGraph, hardware: Hardware) -> MaseGraph:
    """Return a graph of hardware nodes that becomes one unit of logic, whole tensors at its ports.

    Raises:
        ConfigError: for an option that has no meaning here.
        UnsupportedError: naming a node without logic, or what is too large.
    """
    if hardware.levels < 1:
        raise ConfigError(f"levels is {hardware.levels}; a stage holds at least one adder")
    default = Hardware()
    for option in ("parallelism", "memory", "queues"):
        if getattr(hardware, option) != getattr(default, option):
            raise ConfigError(
                f"{option} has no meaning in unrolled logic, which takes whole tensors and has no "
                "memories: leave it out, or leave the mode folded"
            )
    if loops_of(mg):
        raise ConfigError("reuse runs layers on the hardware of one, and unrolled logic has none")
    _check_size(
        mg.name,
        {
            node.name: mg.call(node).operator.operations(mg.call(node)) * TABLES_AN_OPERATION
            for node in mg.nodes
            if node.op == "call_function"
        },
    )
    mg = mg.copy()
    for node in mg.nodes:
        known = metadata(node).common
        if known is not None:
            operands, results = (
                {name: _whole(item) for name, item in specs.items()}
                for specs in (known.operands, known.results)
            )
            whole = CommonMetadata(known.operator, operands, results, known.options)
            update(node, common=whole)
        if node.op == "call_function":
            update(
                node,
                hardware=HardwareMetadata(
                    MODULE, {}, "INTERNAL_RTL", (), {}, 1, 0, levels=hardware.levels
                ),
            )
    cell = unrolled_cell(mg)
    if cell is None:
        raise UnsupportedError(f"{mg.name} computes nothing")
    _check_size(mg.name, {owner: count for owner, (count, _) in cell.network.costs.items()})
    return mg


def _check_size(name: str, tables: Mapping[str, float]) -> None:
    """Refuse a network that is too large, with its largest nodes."""
    total = sum(tables.values())
    if total > MOST_TABLES:
        largest = sorted(tables.items(), key=lambda item: -item[1])[:3]
        nodes = ", ".join(f"{owner} ({count:,.0f})" for owner, count in largest)
        raise UnsupportedError(
            f"{name} is too large to unroll: it would take about {total:,.0f} look-up tables, "
            f"{MOST_TABLES:,} at most are emitted; most are in {nodes}: leave the mode folded, or "
            "give these nodes fewer bits or more zeros"
        )


def _whole(spec: TensorSpec) -> TensorSpec:
    """Return a tensor that streams as one beat."""
    if not spec.shape or spec.grows:
        return spec
    count = spec.elements
    order = Order(spec.shape, tuple(range(len(spec.shape))), (1, count)).simplified(spec.shape)
    return replace(spec, order=order, parallelism=(1, count))


_CELLS: WeakKeyDictionary[MaseGraph, Unrolled] = WeakKeyDictionary()


def unrolled_cell(mg: MaseGraph) -> Unrolled | None:
    """Return the unit of a graph that `unrolled` has returned, proved; None for any other."""
    nodes = [metadata(node).hardware for node in mg.nodes if node.op == "call_function"]
    levels = {node.levels if node else 0 for node in nodes}
    if not levels or levels == {0}:
        return None
    if mg not in _CELLS:
        network = logic_of(mg, max(levels))
        prove(network)
        ports, results = (
            {f"{word}_{place}": Port.of(spec(node)) for place, node in enumerate(nodes)}
            for word, nodes in (("data_in", mg.inputs), ("data_out", output_nodes(mg)))
        )
        _CELLS[mg] = Unrolled(MODULE, ports, results, network)
    return _CELLS[mg]
