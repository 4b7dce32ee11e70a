"""The graph of the hardware that exists: of layers that share hardware, the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch.fx import Node

from mase_hw.cells import Netlist, NetlistBuilder, Port, Wire, multiplexed
from mase_hw.cells.loop_entry import LoopEntry
from mase_hw.cells.loop_exit import LoopExit
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.errors import EmissionError
from mase_hw.graph.loops import Loop, is_take, loops_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import location, stream_operands
from mase_hw.graph.reference import spec

FEEDBACK = "feedback"


@dataclass
class _Sharing:
    """What a graph of hardware says of its layers.

    Attributes:
        loops: with the nodes that are there; each has one layer.
        counts: how many layers run on the hardware of a node, by its name.
        inside: streams that carry all layers of an inference, by the name of the node.
        returns: where what enters again comes from, by the name of where it enters.
        netlists: cells, by node.
    """

    loops: tuple[Loop, ...]
    counts: Mapping[str, int]
    inside: frozenset[str]
    returns: Mapping[str, str]
    netlists: Mapping[str, Netlist] = field(default_factory=dict)


class PhysicalGraph(MaseGraph):
    """The part of a graph that becomes hardware: of layers that are alike, the first.

    It is for timing, estimates and emission. What it computes is what the whole graph says.
    """

    sharing: _Sharing

    def rounds(self, node: Node) -> int:
        return self.sharing.counts.get(node.name, 1)

    def netlist(self, node: Node, *args: object, **kwargs: object) -> Netlist:
        return self.sharing.netlists[node.name]


def physical(mg: MaseGraph) -> MaseGraph:
    """Return the part of a graph that becomes hardware: the graph itself where all of it does."""
    loops = () if isinstance(mg, PhysicalGraph) else loops_of(mg)
    if not loops:
        return mg
    netlists = _netlists(mg, loops)
    copy = mg.copy()
    for loop in loops:
        _close(copy, loop)
    copy.fx_graph.eliminate_dead_code()
    copy.recompile()
    found = PhysicalGraph(
        copy.model,
        name=mg.name,
        batched=mg.batched,
        example_inputs=mg.example_inputs,
        frozen=mg.frozen,
        batch_dims=mg.batch_dims,
    )
    known = {node.name: node for node in found.nodes}
    inside, returns, counts = set[str](), dict[str, str](), dict[str, int]()
    for loop in loops:
        inside |= {node.name for node in (*loop.first, *loop.entries)}
        inside |= {node.name for node in loop.ends if loop.goes_on(node)}
        returns |= {row[0].name: row[-1].name for row in loop.states}
        counts |= {node.name: loop.count for node in loop.first if not is_take(node)}
    there = tuple(
        Loop(
            tuple((known[row[0].name], known[row[-1].name]) for row in loop.states),
            (tuple(known[node.name] for node in loop.layers[0]),),
            tuple(known[node.name] for node in loop.collects),
        )
        for loop in loops
    )
    found.sharing = _Sharing(there, counts, frozenset(inside), returns, netlists)
    return found


def _close(mg: MaseGraph, loop: Loop) -> None:
    """Let the end of the first layer, in place, be where the last one ends."""
    inner = {mg.node(node.name) for node in loop.first}
    behind: dict[Node, Node] = {}
    for row in loop.states:
        begins, ends = mg.node(row[1].name), mg.node(row[-1].name)
        ends.args = (begins.args[0], *ends.args[1:])
        begins.append(ends)
        for user in list(begins.users):
            if user in inner:
                user.replace_input_with(begins, ends)
        behind[begins] = ends
    for node in loop.collects:
        collect = mg.node(node.name)
        first = stream_operands(collect)[0][1]
        collect.args = ([behind.get(first, first)], *collect.args[1:])


def _netlists(mg: MaseGraph, loops: Sequence[Loop]) -> dict[str, Netlist]:
    found: dict[str, Netlist] = {}
    hidden = {node for loop in loops for node in loop.others}
    for loop in loops:
        count = loop.count
        for nodes in loop.places:
            if not is_take(nodes[0]):
                found[nodes[0].name] = _shared(mg, nodes)
        for node in loop.takes:
            found[node.name] = _passed(Port.of(spec(node)), count)
        for node in loop.collects:
            found[node.name] = _passed(Port.of(spec(node)), 1)
        for begin, end in zip(loop.entries, loop.ends, strict=True):
            port = Port.of(spec(begin))
            found[begin.name] = _entry(port, count)
            found[end.name] = _end(LoopExit(port, port.beats, count, loop.goes_on(end)))
    for node in mg.nodes:
        if node.op == "call_function" and node not in hidden and node.name not in found:
            found[node.name] = mg.netlist(node)
    return found


def _passed(port: Port, count: int) -> Netlist:
    return Netlist.wire({"data_in_0": replace(port, beats=port.beats * count)})


def _shared(mg: MaseGraph, nodes: Sequence[Node]) -> Netlist:
    calls = [mg.call(node) for node in nodes]
    same = {
        name
        for name in calls[0].constants
        if all(call.constants[name].equal(calls[0].constants[name]) for call in calls[1:])
    }
    try:
        return multiplexed([mg.netlist(node) for node in nodes], same)
    except EmissionError as error:
        raise EmissionError(f"{nodes[0].name} ({location(nodes[0])}): {error}") from None


def _entry(port: Port, count: int) -> Netlist:
    back = Port(port.fields, port.beats * (count - 1))
    net = NetlistBuilder({"data_in_0": port, FEEDBACK: back})
    # All activations may wait: none enters the next layer before the last one entered this one.
    waiting = net.add(StreamFifo(back, port.beats), "waiting", data_in=net.input(FEEDBACK))
    cell = LoopEntry(port, port.beats, count)
    first = net.add(cell, data_in=net.input("data_in_0"), feedback=waiting)
    return net.netlist(data_out_0=first)


def _end(cell: LoopExit) -> Netlist:
    net = NetlistBuilder({"data_in_0": Port(cell.port.fields, cell.beats * cell.rounds)})
    out = net.add(cell, data_in=net.input("data_in_0"))
    return net.netlist(data_out_0=out, **{FEEDBACK: Wire(out.cell, FEEDBACK)})
