"""From an annotated graph to a `Design`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor
from torch.fx import Node

from mase_hw.emit.design import (
    Design,
    Instance,
    Memory,
    NodeSummary,
    Parameter,
    Queue,
    Stream,
)
from mase_hw.emit.external import pack_image, port_instance, source_instance
from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import metadata
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.graph.streams import stream_operands
from mase_hw.hardware.memory import ExternalMemory, Place
from mase_hw.hardware.timing import Prediction, predict
from mase_hw.ops import Call, Hardware, Source, Table, TensorSpec

ROM_MODULE = "mase_rom_source"
FORK_MODULE = "mase_stream_fork"
WIDTH_SUFFIX = "PRECISION_0"


@dataclass
class _Builder:
    """A design under construction."""

    parameters: list[Parameter] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    tables: dict[tuple[int, tuple[int, ...]], Memory] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    wires: list[tuple[Stream, Stream]] = field(default_factory=list)
    nodes: list[NodeSummary] = field(default_factory=list)
    copies: list[tuple[Stream, Stream]] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    constants: list[Stream] = field(default_factory=list)
    external: ExternalMemory | None = None
    outside: dict[Place, list[int]] = field(default_factory=dict)


Use = tuple[Node, str]


def build_design(mg: MaseGraph) -> Design:
    """Return the design of a graph that went through the hardware metadata pass."""
    prediction = predict(mg)
    builder = _Builder(external=prediction.memory)
    inputs = [
        Stream(f"data_in_{position}", node.name, spec(node))
        for position, node in enumerate(mg.inputs)
    ]
    outputs = [
        Stream(f"data_out_{position}", node.name, spec(node))
        for position, node in enumerate(output_nodes(mg))
    ]
    for stream in inputs:
        builder.parameters += _port_parameters(stream, rounds=False)
    for stream in outputs:
        builder.parameters += _port_parameters(stream, rounds=True)
    uses = _uses(mg)
    supplied: dict[Use, Stream] = {}
    for node, stream in zip(mg.inputs, inputs, strict=True):
        supplied |= _fan_out(builder, stream, uses[node])
    for node in mg.nodes:
        if node.op == "call_function":
            result = _add_node(builder, mg.call(node), node, supplied, prediction)
            supplied |= _fan_out(builder, result, uses[node])
    for node in mg.nodes:
        if node.op == "output":
            for stream in outputs:
                builder.wires.append((stream, supplied[node, stream.name]))
    image = b""
    if builder.external is not None:
        builder.instances.append(port_instance(builder.external))
        image = pack_image(builder.external, builder.outside)
    return Design(
        mg.name,
        tuple(inputs),
        tuple(outputs),
        tuple(builder.streams),
        tuple(builder.parameters),
        tuple(builder.instances),
        tuple(builder.memories),
        tuple(builder.nodes),
        prediction.interval_cycles,
        prediction.latency_cycles,
        tuple(builder.wires),
        tuple(builder.copies),
        tuple(builder.unused),
        tuple(builder.queues),
        tuple(builder.constants),
        builder.external,
        image,
    )


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


def _fan_out(builder: _Builder, stream: Stream, uses: Sequence[Use]) -> dict[Use, Stream]:
    """Return the stream of each use: the stream itself, or the outputs of a fork."""
    if len(uses) == 1:
        return {uses[0]: stream}
    ends = [
        Stream(f"{stream.node}_fork_{number}", stream.node, stream.spec)
        for number in range(len(uses))
    ]
    builder.streams += ends
    builder.copies += [(end, stream) for end in ends]
    builder.instances.append(
        Instance(
            f"{stream.node}_fork_inst",
            stream.node,
            FORK_MODULE,
            {"COUNT": str(len(ends))},
            {
                "clk": "clk",
                "rst": "rst",
                "data_in_valid": f"{stream.name}_valid",
                "data_in_ready": f"{stream.name}_ready",
                "data_out_valid": _concatenated([f"{end.name}_valid" for end in ends]),
                "data_out_ready": _concatenated([f"{end.name}_ready" for end in ends]),
            },
        )
    )
    return dict(zip(uses, ends, strict=True))


def _concatenated(nets: Sequence[str]) -> str:
    """Return a SystemVerilog concatenation with the first net in the low bits."""
    return nets[0] if len(nets) == 1 else f"{{{', '.join(reversed(nets))}}}"


def _payload(stream: Stream) -> str:
    return _concatenated([f"{stream.name}{item.suffix}" for item in stream.fields])


def _payload_bits(stream: Stream) -> int:
    return sum(item.lanes * item.width_bits for item in stream.fields)


def _add_node(
    builder: _Builder,
    call: Call,
    node: Node,
    supplied: Mapping[Use, Stream],
    prediction: Prediction,
) -> Stream:
    hardware = call.operator.hardware(call)
    result = Stream(f"{node.name}_data_out_0", node.name, call.result)
    builder.streams.append(result)
    operands = {name: supplied[node, name] for name, _ in stream_operands(node)}
    if hardware is None:
        builder.wires.append((result, next(iter(operands.values()))))
    elif hardware.queue_depth:
        _add_queue(builder, node, hardware, next(iter(operands.values())), result)
    else:
        _add_instance(builder, call, hardware, operands, result)
    builder.nodes.append(
        NodeSummary(
            node.name,
            call.operator.name,
            hardware.module if hardware else None,
            prediction.work_cycles[node.name],
            call.operator.multipliers(call) if hardware else 0,
            str(metadata(node).source),
        )
    )
    return result


def _add_queue(
    builder: _Builder, node: Node, hardware: Hardware, operand: Stream, result: Stream
) -> None:
    depth = hardware.queue_depth
    consumer = ", ".join(user.name for user in node.users)
    builder.queues.append(
        Queue(node.name, depth, operand.name, result.name, operand.node, consumer)
    )
    parameters = {
        "WIDTH": str(_payload_bits(result)),
        "DEPTH": _own_parameter(builder, node.name, "DEPTH", depth),
    }
    ports = {"clk": "clk", "rst": "rst"}
    for port, stream in (("data_in", operand), ("data_out", result)):
        ports |= {
            port: _payload(stream),
            f"{port}_valid": f"{stream.name}_valid",
            f"{port}_ready": f"{stream.name}_ready",
        }
    builder.instances.append(
        Instance(f"{node.name}_inst", node.name, hardware.module, parameters, ports)
    )


def _own_parameter(builder: _Builder, node: str, name: str, value: int | str) -> str:
    """Add a parameter of a node to the top; return its name there."""
    full = f"{node}_{name}"
    kind = "int" if isinstance(value, int) and value < 0 else "int unsigned"
    builder.parameters.append(Parameter(kind, full, str(value)))
    return full


def _add_instance(
    builder: _Builder,
    call: Call,
    hardware: Hardware,
    operands: Mapping[str, Stream],
    result: Stream,
) -> None:
    parameters: dict[str, str] = {}
    ports = {"clk": "clk", "rst": "rst"}
    constants = call.operator.constant_streams(call)
    sources = {source.operand: source for source in hardware.sources}
    for name, stream in operands.items():
        parameters |= _tensor_parameters(
            builder, call, name, stream, rounds=False, moves=hardware.moves
        )
        ports |= _stream_ports(name, stream)
    for name, source in sources.items():
        stream = Stream(f"{call.name}_{name}", call.name, constants[name])
        parameters |= _tensor_parameters(
            builder, call, name, stream, rounds=False, moves=hardware.moves
        )
        ports |= _stream_ports(name, stream)
        _add_source(builder, call, source, stream)
    for name in hardware.absent:
        net = f"unused_{call.name}_{name}_ready"
        builder.unused.append(net)
        ports |= {name: "'0", f"{name}_valid": "1'b1", f"{name}_ready": net}
    ports |= dict.fromkeys(hardware.zeros, "'0")
    for name in hardware.open:
        net = f"unused_{call.name}_{name}"
        builder.unused.append(net)
        ports[name] = net
    parameters |= _tensor_parameters(
        builder, call, "data_out_0", result, rounds=hardware.rounds, moves=hardware.moves
    )
    ports |= _stream_ports("data_out_0", result)
    for name, value in hardware.parameters.items():
        parameters[name] = _own_parameter(builder, call.name, name, value)
    for table in hardware.tables:
        parameters[table.parameter] = _path(_add_table(builder, call, table))
    builder.instances.append(
        Instance(f"{call.name}_inst", call.name, hardware.module, parameters, ports)
    )


def _add_table(builder: _Builder, call: Call, table: Table) -> Memory:
    """Return the memory of a table; equal tables share one, so that equal layers stay equal."""
    words = tuple(table.words)
    memory = Memory(f"{call.name}_{table.name}", call.name, table.width_bits, words)
    known = builder.tables.setdefault((table.width_bits, words), memory)
    if known is memory:
        builder.memories.append(memory)
    return known


def _add_source(builder: _Builder, call: Call, source: Source, stream: Stream) -> None:
    number_format = stream.spec.quantized
    words = pack_words(number_format, source.beats, stream.spec.parallelism[0])
    builder.constants.append(stream)
    name = f"{stream.name}_source_0"
    regions = builder.external.regions if builder.external else ()
    for region in regions:
        if (region.node, region.operand) == (call.name, source.operand):
            assert builder.external is not None
            payload = _payload(stream)
            instance = source_instance(builder.external, region, name, payload, stream.name)
            builder.instances.append(instance)
            builder.outside[call.name, source.operand] = words
            return
    memory = Memory(name, call.name, _payload_bits(stream), tuple(words))
    builder.memories.append(memory)
    builder.instances.append(
        Instance(
            memory.name,
            call.name,
            ROM_MODULE,
            {
                "WIDTH": str(memory.width_bits),
                "DEPTH": str(len(words)),
                "HOLD": str(source.hold),
                "INIT_FILE": _path(memory),
            },
            {
                "clk": "clk",
                "rst": "rst",
                "data_out": _payload(stream),
                "data_out_valid": f"{stream.name}_valid",
                "data_out_ready": f"{stream.name}_ready",
            },
        )
    )


def pack_words(number_format: Format, beats: Tensor, rows: int = 1) -> list[int]:
    """Return one integer per beat, lane 0 and the first field in the low bits.

    Args:
        number_format: format of the codes.
        beats: int64 codes `[beats, lanes]`.
        rows: rows of the tile that a beat holds.
    """
    words = [0] * len(beats)
    shift = 0
    payloads = number_format.to_fields(beats, rows)
    for item in number_format.stream_fields(beats.shape[1], rows):
        for number, row in enumerate(payloads[item.suffix].tolist()):
            for lane, value in enumerate(row):
                words[number] |= value << (shift + lane * item.width_bits)
        shift += item.lanes * item.width_bits
    return words


def _path(memory: Memory) -> str:
    return f'{{MEM_DIR, "/{memory.name}.mem"}}'


def _stream_ports(port: str, stream: Stream) -> dict[str, str]:
    payload = {f"{port}{item.suffix}": f"{stream.name}{item.suffix}" for item in stream.fields}
    return {
        **payload,
        f"{port}_valid": f"{stream.name}_valid",
        f"{port}_ready": f"{stream.name}_ready",
    }


def _format_parameters(spec: TensorSpec, rounds: bool) -> dict[str, int]:
    number_format = spec.quantized
    return number_format.result_parameters() if rounds else number_format.operand_parameters()


def _sized_parameters(spec: TensorSpec, rounds: bool) -> Iterable[tuple[str, str, int]]:
    """Yield (type, suffix, value) of every parameter of a tensor."""
    for suffix, value in _format_parameters(spec, rounds).items():
        yield _parameter_type(suffix), suffix, value
    streamed = spec.stream_shape
    shape = (1, *streamed) if len(streamed) < 2 else streamed
    for dim, size in enumerate(reversed(shape)):
        yield "int unsigned", f"TENSOR_SIZE_DIM_{dim}", size
    for dim, lanes in enumerate(reversed(spec.parallelism)):
        yield "int unsigned", f"PARALLELISM_DIM_{dim}", lanes


def _parameter_type(suffix: str) -> str:
    if suffix == "SIGNED":
        return "bit"
    signed = suffix.endswith("_BIAS") or suffix in ("PRECISION_1", "ZERO_POINT")
    return "int" if signed else "int unsigned"


def _port_parameters(stream: Stream, rounds: bool) -> list[Parameter]:
    return [
        Parameter(kind, f"{stream.name.upper()}_{suffix}", str(value))
        for kind, suffix, value in _sized_parameters(stream.spec, rounds)
    ]


def _tensor_parameters(
    builder: _Builder, call: Call, name: str, stream: Stream, rounds: bool, moves: bool = False
) -> dict[str, str]:
    """Add the top's parameters of one tensor of a node; return what the instance is given.

    A tensor that is an input of the top takes the port's parameters.
    """
    port = stream.name.upper() if stream.name.startswith("data_in_") else None
    given: dict[str, str] = {}
    beyond: list[str] = []
    formats = _format_parameters(stream.spec, rounds)
    for kind, suffix, value in _sized_parameters(stream.spec, rounds):
        if moves and suffix in formats and suffix != WIDTH_SUFFIX:
            continue
        full = f"{call.name}_{name.upper()}_{suffix}"
        default = f"{port}_{suffix}" if port else str(value)
        builder.parameters.append(Parameter(kind, full, default))
        if suffix.startswith("TENSOR_SIZE_DIM_") and suffix[-1] not in "01":
            beyond.append(full)
        else:
            given[f"{name.upper()}_{suffix}"] = full
    if beyond:
        key = f"{name.upper()}_TENSOR_SIZE_DIM_1"
        given[key] = " * ".join([given[key], *beyond])
    return given
