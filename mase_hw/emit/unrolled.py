"""The design of a network whose constants are logic: one instance, and the text of its module."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from mase_hw.emit.connect import INSTANCE_SUFFIX, connect
from mase_hw.emit.design import Design, Instance, Net, NodeSummary, Section, Stream
from mase_hw.emit.render import environment
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import metadata
from mase_hw.graph.reference import output_nodes
from mase_hw.passes.formats.expected_agreement import model_agreement
from mase_hw.unrolled.cell import Unrolled
from mase_hw.unrolled.logic import Register, Signal


def unrolled_design(
    mg: MaseGraph, cell: Unrolled, inputs: tuple[Stream, ...], outputs: tuple[Stream, ...]
) -> Design:
    """Return the design of one unit.

    Args:
        mg: what it computes.
        cell: the unit.
        inputs: ports of the top.
        outputs: likewise.
    """
    nets = {item.name: Net(item.name, item.fields) for item in (*inputs, *outputs)}
    name = f"{cell.module}{INSTANCE_SUFFIX}"
    ports, unused = connect(cell, name, nets)
    names = {port: net.name for port, net in nets.items()}
    instance = Instance(name, output_nodes(mg)[0].name, cell, {}, ports, names, unused)
    roundings = metadata(mg.fx_graph.output_node()).roundings
    nodes = tuple(
        NodeSummary(
            node.name, mg.call(node).operator.name, cell.module, 1, 0, str(metadata(node).source)
        )
        for node in mg.nodes
        if node.op == "call_function"
    )
    title = f"{cell.module}: {len(nodes)} nodes in one, an inference a cycle"
    return Design(
        mg.name,
        inputs,
        outputs,
        (),
        (Section((title,), (), (instance,)),),
        (),
        nodes,
        1,
        cell.latency,
        keeps_state=mg.keeps_state,
        agreement=model_agreement(mg),
        roundings=(sum(not item.replaced for item in roundings), len(roundings)),
    )


@dataclass(frozen=True)
class _Group:
    """Lines of one node."""

    title: str
    lines: list[str]


def render_unrolled(cell: Unrolled) -> str:
    """Return the text of the module."""
    network = cell.network
    groups = []
    for owner, signals in groupby(network.signals, key=lambda item: item.owner):
        given = [*signals]
        lines = [line for item in given for line in _declared(item)]
        registers = [line for item in given for line in _registered(item)]
        if registers:
            lines += ["always_ff @(posedge clk) begin", *registers, "end"]
        groups.append(_Group(owner or "inputs", lines))
    results = [
        item.at(network.stages) for row in reversed(network.results) for item in reversed(row)
    ]
    unread = [name for item in network.signals for name in _names(item)]
    return (
        environment()
        .get_template("unrolled.sv.j2")
        .render(cell=cell, groups=groups, results=results, unread=unread)
    )


def _names(signal: Signal) -> list[str]:
    return [signal.name, *(f"{signal.name}_q{place + 1}" for place in range(signal.delays))]


def _declared(signal: Signal) -> list[str]:
    lines = [f"logic [{signal.width - 1}:0] {', '.join(_names(signal))};"]
    if not isinstance(signal, Register):
        lines.append(f"assign {signal.name} = {_text(signal, signal.text)};")
    return lines


def _text(signal: Signal, text: str) -> str:
    stage = signal.stage - isinstance(signal, Register)
    return text.format(*(operand.at(stage) for operand in signal.operands))


def _registered(signal: Signal) -> list[str]:
    lines = []
    if isinstance(signal, Register):
        condition, value = (_text(signal, item) for item in (signal.condition, signal.text))
        lines.append(f"  if ({condition}) {signal.name} <= {signal.width}'d{signal.bound};")
        lines.append(f"  else {signal.name} <= {value};")
    before = signal.name
    for place in range(signal.delays):
        lines.append(f"  {signal.name}_q{place + 1} <= {before};")
        before = f"{signal.name}_q{place + 1}"
    return lines
