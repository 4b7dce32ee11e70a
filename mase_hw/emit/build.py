"""From an annotated graph to a `Design`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


from torch import Tensor
from torch.fx import Node

from mase_hw.emit.design import Design, Instance, Memory, NodeSummary, Parameter, Stream
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import metadata
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.graph.streams import stream_operands
from mase_hw.hardware.timing import Prediction, predict
from mase_hw.formats import Format
from mase_hw.ops import Call, Hardware, Source, TensorSpec

ROM_MODULE = "mase_rom_source"


@dataclass
class _Builder:
    """A design under construction."""

    parameters: list[Parameter] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    wires: list[tuple[Stream, Stream]] = field(default_factory=list)
    nodes: list[NodeSummary] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


def build_design(mg: MaseGraph) -> Design:
    """Return the design of a graph that went through the hardware metadata pass."""
    prediction = predict(mg)
    builder = _Builder()
    produced: dict[Node, Stream] = {}
    inputs = [
        Stream(f"data_in_{position}", node.name, spec(node))
        for position, node in enumerate(mg.inputs)
    ]
    outputs = [
        Stream(f"data_out_{position}", node.name, spec(node))
        for position, node in enumerate(output_nodes(mg))
    ]
    produced.update(zip(mg.inputs, inputs, strict=True))
    leaving = {stream.node: stream for stream in outputs}
    for stream in inputs:
        builder.parameters += _port_parameters(stream, rounds=False)
    for stream in outputs:
        builder.parameters += _port_parameters(stream, rounds=True)
    for node in mg.nodes:
        if node.op == "call_function":
            produced[node] = _add_node(builder, mg.call(node), node, produced, leaving, prediction)
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
        tuple(builder.unused),
    )


def _add_node(
    builder: _Builder,
    call: Call,
    node: Node,
    produced: Mapping[Node, Stream],
    leaving: Mapping[str, Stream],
    prediction: Prediction,
) -> Stream:
    hardware = call.operator.hardware(call)
    result = Stream(f"{node.name}_data_out_0", node.name, call.result)
    builder.streams.append(result)
    operands = {name: produced[producer] for name, producer in stream_operands(node)}
    if hardware is None:
        builder.wires.append((result, next(iter(operands.values()))))
    else:
        _add_instance(builder, call, hardware, operands, result, leaving)
    if node.name in leaving:
        builder.wires.append((leaving[node.name], result))
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


def _add_instance(
    builder: _Builder,
    call: Call,
    hardware: Hardware,
    operands: Mapping[str, Stream],
    result: Stream,
    leaving: Mapping[str, Stream],
) -> None:
    parameters: dict[str, str] = {}
    ports = {"clk": "clk", "rst": "rst"}
    constants = call.operator.constant_streams(call)
    sources = {source.operand: source for source in hardware.sources}
    for name, stream in operands.items():
        port = stream.name if stream.name.startswith("data_in_") else None
        parameters |= _tensor_parameters(builder, call, name, stream.spec, port, rounds=False)
        ports |= _stream_ports(name, stream)
    for name, source in sources.items():
        stream = Stream(f"{call.name}_{name}", call.name, constants[name])
        parameters |= _tensor_parameters(builder, call, name, stream.spec, None, rounds=False)
        ports |= _stream_ports(name, stream)
        _add_source(builder, call, source, stream)
    for name in hardware.absent:
        net = f"unused_{call.name}_{name}_ready"
        builder.unused.append(net)
        ports |= {name: "'0", f"{name}_valid": "1'b1", f"{name}_ready": net}
    port = leaving[call.name].name if call.name in leaving else None
    parameters |= _tensor_parameters(
        builder, call, "data_out_0", result.spec, port, rounds=hardware.rounds
    )
    ports |= _stream_ports("data_out_0", result)
    for name, value in hardware.parameters.items():
        full = f"{call.name}_{name}"
        kind = "int" if isinstance(value, int) and value < 0 else "int unsigned"
        builder.parameters.append(Parameter(kind, full, str(value)))
        parameters[name] = full
    for table in hardware.tables:
        memory = Memory(
            f"{call.name}_{table.name}", call.name, table.width_bits, tuple(table.words)
        )
        builder.memories.append(memory)
        parameters[table.parameter] = _path(memory)
    builder.instances.append(
        Instance(f"{call.name}_inst", call.name, hardware.module, parameters, ports)
    )


def _add_source(builder: _Builder, call: Call, source: Source, stream: Stream) -> None:
    number_format = stream.spec.quantized
    words = pack_words(number_format, source.beats, stream.spec.parallelism[0])
    width_bits = sum(item.lanes * item.width_bits for item in stream.fields)
    memory = Memory(f"{stream.name}_source_0", call.name, width_bits, tuple(words))
    builder.memories.append(memory)
    builder.streams.append(stream)
    builder.instances.append(
        Instance(
            memory.name,
            call.name,
            ROM_MODULE,
            {
                "WIDTH": str(width_bits),
                "DEPTH": str(len(words)),
                "HOLD": str(source.hold),
                "INIT_FILE": _path(memory),
            },
            {
                "clk": "clk",
                "rst": "rst",
                "data_out": stream.name,
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
    return "int" if suffix == "PRECISION_1" or suffix.endswith("_BIAS") else "int unsigned"


def _port_parameters(stream: Stream, rounds: bool) -> list[Parameter]:
    return [
        Parameter(kind, f"{stream.name.upper()}_{suffix}", str(value))
        for kind, suffix, value in _sized_parameters(stream.spec, rounds)
    ]


def _tensor_parameters(
    builder: _Builder, call: Call, name: str, spec: TensorSpec, port: str | None, rounds: bool
) -> dict[str, str]:
    """Add the top's parameters of one tensor of a node; return what the instance is given.

    A tensor that is a port of the top takes the port's parameters.
    """
    given: dict[str, str] = {}
    beyond: list[str] = []
    for kind, suffix, value in _sized_parameters(spec, rounds):
        full = f"{call.name}_{name.upper()}_{suffix}"
        default = f"{port.upper()}_{suffix}" if port else str(value)
        builder.parameters.append(Parameter(kind, full, default))
        if suffix.startswith("TENSOR_SIZE_DIM_") and suffix[-1] not in "01":
            beyond.append(full)
        else:
            given[f"{name.upper()}_{suffix}"] = full
    if beyond:
        key = f"{name.upper()}_TENSOR_SIZE_DIM_1"
        given[key] = " * ".join([given[key], *beyond])
    return given



