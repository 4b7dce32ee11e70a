"""From an annotated graph to a `Design`: the netlists of its nodes, joined and named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

import numpy as np
import numpy.typing as npt
from torch.fx import Node

from mase_hw.cells import Cell, Composite, Image, Netlist, RomSource, Wire
from mase_hw.cells.axi_read_port import AxiReadPort
from mase_hw.cells.axi_source import AxiSource
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.cells.stream_fork import StreamFork
from mase_hw.emit.connect import INSTANCE_SUFFIX, connect, inner_nets
from mase_hw.emit.design import (
    REPEATS,
    Constant,
    Design,
    Instance,
    Memory,
    Net,
    NodeSummary,
    Queue,
    Section,
    Stream,
    concatenated,
)
from mase_hw.emit.names import check_names, name_formats
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import metadata, stream_operands
from mase_hw.graph.physical import FEEDBACK, PhysicalGraph, physical
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.ops import Call, Stateful, operator_for
from mase_hw.passes.formats.expected_agreement import model_agreement
from mase_hw.timing.memory import ExternalMemory, Place
from mase_hw.timing.prediction import Prediction, predict

Use = tuple[Node, str]


@dataclass
class _Builder:
    """A design under construction.

    Attributes:
        tables: memories by their words: equal tables share a file, so that equal layers stay equal.
        outside: words of constants in the external memory.
        inside: nodes that compute several times in an inference, whose streams are not compared.
        back: what comes back to where layers on the same hardware begin, by the node's name.
    """

    external: ExternalMemory | None
    sections: list[Section] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    tables: dict[tuple[int, tuple[int, ...]], Memory] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    nodes: list[NodeSummary] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    outside: dict[Place, Octets] = field(default_factory=dict)
    inside: frozenset[str] = frozenset()
    back: dict[str, Net] = field(default_factory=dict)


def build_design(mg: MaseGraph) -> Design:
    """Return the design of a graph that went through the hardware metadata pass.

    Raises:
        EmissionError: for names that collide in the top.
    """
    keeps_state, agreement = mg.keeps_state, model_agreement(mg)
    roundings = metadata(mg.fx_graph.output_node()).roundings
    kept = sum(not item.replaced for item in roundings)
    mg = physical(mg)
    prediction = predict(mg)
    builder = _Builder(prediction.memory)
    if isinstance(mg, PhysicalGraph):
        builder.inside = mg.sharing.inside
    places = _places(mg)
    inputs = [
        Stream(
            f"data_in_{i}",
            node.name,
            spec(node),
            places.get(node),
            _batch_dim(mg, node, mg.batch_dims.of_input(i)),
        )
        for i, node in enumerate(mg.inputs)
    ]
    outputs = [
        Stream(f"data_out_{i}", node.name, spec(node), batch_dim=_batch_dim(mg, node, dim))
        for i, (node, dim) in enumerate(zip(output_nodes(mg), mg.output_dims, strict=True))
    ]
    if builder.external is not None:
        builder.sections.append(_memory_port(builder.external))
    uses, shared = _uses(mg), _shared(mg)
    supplied: dict[Use, Net] = {}
    for node, stream in zip(mg.inputs, inputs, strict=True):
        supplied |= _fan_out(builder, node, Net(stream.name, stream.fields), uses[node])
    for node in mg.nodes:
        if node.op == "call_function":
            result = _add_node(builder, mg, node, shared[node], supplied, prediction)
            supplied |= _fan_out(builder, node, result, uses[node])
        elif node.op == "output":
            ends = [(Net(item.name, item.fields), supplied[node, item.name]) for item in outputs]
            builder.sections.append(Section((), wires=tuple(ends)))
    design = Design(
        mg.name,
        tuple(inputs),
        tuple(outputs),
        tuple(builder.streams),
        tuple(builder.sections),
        tuple(builder.memories),
        tuple(builder.nodes),
        prediction.interval_cycles,
        prediction.latency_cycles,
        tuple(builder.queues),
        tuple(builder.constants),
        name_formats(builder.sections),
        builder.external,
        pack_image(builder.external, builder.outside) if builder.external else b"",
        prediction.sketched,
        keeps_state,
        agreement,
        roundings=(kept, len(roundings)),
    )
    check_names(design)
    return design


def _places(mg: MaseGraph) -> dict[Node, int]:
    """Return how many places there are of a state, by the input that says one of them."""
    found: dict[Node, int] = {}
    for node in mg.nodes:
        operator = operator_for(node.target) if node.op == "call_function" else None
        if not isinstance(operator, Stateful):
            continue
        for name, number in operator.places(mg.call(node)).items():
            source = dict(stream_operands(node))[name]
            while source.op == "call_function":
                ((_, source),) = stream_operands(source)
            found[source] = min(number, found.get(source, number))
    return found


def _uses(mg: MaseGraph) -> dict[Node, list[Use]]:
    """Return who takes each node's result: operands of nodes, and ports of the design."""
    uses: dict[Node, list[Use]] = {node: [] for node in mg.nodes}
    for node in mg.nodes:
        if node.op == "call_function":
            for name, producer in stream_operands(node):
                uses[producer].append((node, name))
        elif node.op == "output":
            for position, producer in enumerate(output_nodes(mg)):
                uses[producer].append((node, f"data_out_{position}"))
    return uses


def _shared(mg: MaseGraph) -> dict[Node, Netlist]:
    """Return the netlists of all nodes; of several cells that occur `REPEATS` times become modules.

    They are easier to read, and a simulation translates them once.
    """
    netlists = {node: mg.netlist(node) for node in mg.nodes if node.op == "call_function"}
    groups: dict[Hashable, list[tuple[Node, Composite]]] = {}
    for node, netlist in netlists.items():
        if len(netlist.cells) - len(netlist.constants) > 1:
            whole = Composite.of(
                "", netlist, f"{mg.call(node).operator.name}: {_tensors(mg.call(node))}"
            )
            groups.setdefault(whole.shape, []).append((node, whole))
    numbers = Counter[str]()
    for group in groups.values():
        if len(group) >= REPEATS:
            operator = mg.call(group[0][0]).operator.name
            for node, whole in group:
                named = replace(whole, name=f"{operator}_{numbers[operator]}")
                netlists[node] = named.within(netlists[node])
            numbers[operator] += 1
    return netlists


def _fan_out(builder: _Builder, node: Node, net: Net, uses: Sequence[Use]) -> dict[Use, Net]:
    """Return the net of each use: the stream itself, or the outputs of a fork."""
    if len(uses) == 1:
        return {uses[0]: net}
    streams = [Stream(f"{node.name}_fork_{i}", node.name, spec(node)) for i in range(len(uses))]
    builder.streams += [] if node.name in builder.inside else streams
    ends = [Net(stream.name, stream.fields) for stream in streams]
    valid, ready = (
        concatenated([f"{end.name}_{word}" for end in ends]) for word in ("valid", "ready")
    )
    instance = Instance(
        f"{node.name}_fork{INSTANCE_SUFFIX}",
        node.name,
        StreamFork(len(ends), spec(node).beats),
        {},
        (
            (("data_in_valid", f"{net.name}_valid"), ("data_in_ready", f"{net.name}_ready")),
            (("data_out_valid", valid), ("data_out_ready", ready)),
        ),
        {"data_in": net.name},
    )
    takers = ", ".join(user.name for user, _ in uses)
    builder.sections.append(
        Section(
            (f"{node.name} goes to {takers}.",),
            tuple(ends),
            (instance,),
            copies=tuple((end, net) for end in ends),
        )
    )
    return dict(zip(uses, ends, strict=True))


def _add_node(
    builder: _Builder,
    mg: MaseGraph,
    node: Node,
    netlist: Netlist,
    supplied: Mapping[Use, Net],
    prediction: Prediction,
) -> Net:
    call = mg.call(node)
    stream = Stream(f"{node.name}_data_out_0", node.name, call.result)
    result = Net(stream.name, stream.fields)
    is_inside = node.name in builder.inside
    builder.streams += [] if is_inside else [stream]
    nets = {Wire("", name): supplied[node, name] for name, _ in stream_operands(node)}
    results = {netlist.outputs["data_out_0"]: result}
    for name, port in netlist.inputs.items():
        if Wire("", name) not in nets:
            builder.back[node.name] = nets[Wire("", name)] = Net(f"{node.name}_{name}", port.fields)
    if isinstance(mg, PhysicalGraph):
        for entry, end in mg.sharing.returns.items():
            if end == node.name:
                results[netlist.outputs[FEEDBACK]] = builder.back[entry]
    inner = inner_nets(lambda stem: f"{node.name}_{stem}", netlist, results)
    nets |= inner
    instances = [
        _instance(builder, node, name, cell, netlist, nets) for name, cell in netlist.cells.items()
    ]
    wires = ((result, nets[netlist.outputs["data_out_0"]]),) if netlist.is_wire else ()
    declared = tuple(inner.values()) if inner else (result,)
    declared = tuple(net for net in declared if net not in builder.back.values())
    declared = (*([builder.back[node.name]] if node.name in builder.back else []), *declared)
    title = _title(node, call)
    if mg.rounds(node) > 1:
        title = (*title, f"Runs {mg.rounds(node)} layers, one after the other.")
    builder.sections.append(Section(title, declared, tuple(instances), wires))
    if isinstance(netlist.main, StreamFifo) and not is_inside:
        _note_queue(builder, node, netlist.main, nets[Wire("", "data_in_0")], result)
    builder.nodes.append(
        NodeSummary(
            node.name,
            call.operator.name,
            netlist.main.module if netlist.main else None,
            prediction.work_cycles[node.name],
            netlist.multipliers,
            str(metadata(node).source),
        )
    )
    return result


def _instance(
    builder: _Builder,
    node: Node,
    name: str,
    cell: Cell,
    netlist: Netlist,
    nets: Mapping[Wire, Net],
) -> Instance:
    full = f"{node.name}_{name}"
    if isinstance(cell, RomSource):
        cell = _placed(builder, node, name, cell, netlist, nets)
    made = {port: Wire(name, port) for port in cell.outputs}
    if isinstance(cell, AxiSource):
        made = {"data_out": Wire(name, next(iter(netlist.cells[name].outputs)))}
    given = {port: netlist.links.get((name, port)) for port in cell.inputs}
    streams = {port: nets[wire] for port, wire in {**given, **made}.items() if wire is not None}
    ports, unused = connect(cell, full, streams)
    files = {
        parameter: _memory(builder, node, _file_stem(node, name, part, netlist), image)
        for parameter, (part, image) in cell.images.items()
    }
    names = {port: net.name for port, net in streams.items()}
    return Instance(full, node.name, cell, files, ports, names, unused)


def _placed(
    builder: _Builder,
    node: Node,
    name: str,
    cell: RomSource,
    netlist: Netlist,
    nets: Mapping[Wire, Net],
) -> RomSource | AxiSource:
    """Return the cell that sends a constant from where it lies, and note the constant."""
    operand = next(key for key, value in netlist.constants.items() if value == name)
    net = nets[Wire(name, next(iter(cell.outputs)))]
    external = builder.external
    regions = external.regions if external else ()
    for number, region in enumerate(regions):
        if external is not None and (region.node, region.operand) == (node.name, operand):
            builder.outside[node.name, operand] = cell.image.octets
            builder.constants.append(Constant(net.name, node.name, operand, cell, external.file))
            port = external.port
            return AxiSource(
                cell.port,
                number,
                region.words,
                region.repeats,
                port.data_width,
                port.address_width,
                region.offset,
                region.burst_beats,
                region.buffer_beats,
            )
    file = f"mem/{node.name}_{name}.mem"
    builder.constants.append(Constant(net.name, node.name, operand, cell, file))
    return cell


def _file_stem(node: Node, name: str, part: str, netlist: Netlist) -> str:
    """Return the name of a memory's file; with its cell's where another cell has such a memory."""
    if not part:
        return f"{node.name}_{name}"
    parts = [item for cell in netlist.cells.values() for item, _ in cell.images.values()]
    own = name.removesuffix(INSTANCE_SUFFIX.removeprefix("_")) if parts.count(part) > 1 else ""
    return f"{node.name}_{own}{part}"


def _memory(builder: _Builder, node: Node, name: str, image: Image) -> Memory:
    """Return the memory of an image; equal tables share one, so that equal layers stay equal."""
    memory = Memory(name, node.name, image.width_bits, image.words)
    is_constant = any(item.file == memory.file for item in builder.constants)
    if is_constant:
        builder.memories.append(memory)
        return memory
    known = builder.tables.setdefault((image.width_bits, image.words), memory)
    if known is memory:
        builder.memories.append(memory)
    return known


def _batch_dim(mg: MaseGraph, node: Node, dim: int) -> int | None:
    """Return the dimension that counts inferences, where the shape of one does not say it."""
    alone = mg.batched and spec(node).shape == (1,)
    return dim if dim or alone else None


def _memory_port(memory: ExternalMemory) -> Section:
    port = memory.port
    cell = AxiReadPort(
        len(memory.regions), port.address_width, port.data_width, memory.id_width, port.outstanding
    )
    instance = Instance(
        "external_memory_inst", "external_memory", cell, {}, (tuple(cell.signals.items()),), {}
    )
    return Section(("external_memory: constants that lie outside the chip",), (), (instance,))


def _note_queue(builder: _Builder, node: Node, cell: StreamFifo, net: Net, result: Net) -> None:
    consumer = ", ".join(user.name for user in node.users)
    producer = stream_operands(node)[0][1].name
    builder.queues.append(Queue(node.name, cell.depth, net.name, result.name, producer, consumer))


def _title(node: Node, call: Call) -> tuple[str, ...]:
    """Comment above a node: operator, tensors, the user's line."""
    lines = [f"{node.name}: {call.operator.name}, {_tensors(call)}"]
    source = metadata(node).source
    if source.file:
        lines.append(f"{PurePath(source.file).name}:{source.line}: {source.code}")
    return tuple(lines)


def _tensors(call: Call) -> str:
    given = ", ".join(
        f"{name} {list(item.shape)} {item.format}" for name, item in call.operands.items()
    )
    made = call.result
    return (
        f"{given} -> {list(made.shape)} {made.format}, "
        f"{made.parallelism[0]} x {made.parallelism[1]} elements a beat"
    )


Octets = npt.NDArray[np.uint8]


def pack_image(memory: ExternalMemory, words: MutableMapping[Place, Octets]) -> bytes:
    """Return the image: each region's words without gaps, low bits first, filled up with zeros.

    Args:
        memory: the port and its regions.
        words: for each (node, operand), its words `[words, octets]`, the lowest octet first; they
            are taken out.
    """
    image = np.zeros(memory.bytes, np.uint8)
    for region in memory.regions:
        rows = words.pop((region.node, region.operand))
        packed = rows.reshape(-1)
        if region.width_bits % 8:
            bits = np.unpackbits(rows, axis=1, bitorder="little")[:, : region.width_bits]
            packed = np.packbits(bits.reshape(-1), bitorder="little")
        image[region.offset : region.offset + len(packed)] = packed
    return image.tobytes()
