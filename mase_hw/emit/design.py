"""The design that a graph becomes: instances, streams and memories, frozen before rendering.

The same object is rendered into `top.sv` and written to `design.json`, which the simulation reads.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mase_hw.errors import EmissionError
from mase_hw.formats import StreamField
from mase_hw.hardware.memory import ExternalMemory
from mase_hw.ops import TensorSpec

DESIGN_VERSION = 1
# Instances of equal parameters from which on a simulation shares their code.
REPEATS = 4


@dataclass(frozen=True)
class Stream:
    """One stream: the port or net `name`, `name_valid`, `name_ready`.

    Attributes:
        name: net name, such as `data_in_0` for a port of the top or `fc1_data_out_0` inside.
        node: the graph node whose result it carries (the placeholder, for an input).
        spec: shape, format and parallelism.
    """

    name: str
    node: str
    spec: TensorSpec

    @property
    def fields(self) -> tuple[StreamField, ...]:
        """The payload signals of a beat."""
        return self.spec.quantized.stream_fields(self.spec.lanes, self.spec.parallelism[0])

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of `design.json`."""
        return {
            "name": self.name,
            "node": self.node,
            "fields": [asdict(item) for item in self.fields],
            "beats": self.spec.beats,
            "stream_shape": list(self.spec.stream_shape),
            **self.spec.to_dict(),
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Stream:
        """Read what `to_dict` wrote."""
        return cls(entry["name"], entry["node"], TensorSpec.from_dict(dict(entry)))


@dataclass(frozen=True)
class Parameter:
    """A typed parameter of the top: `parameter TYPE NAME = VALUE`."""

    type: str
    name: str
    value: str


@dataclass(frozen=True)
class Instance:
    """One instance of a library module in the top.

    Attributes:
        name: instance name, such as `fc1_inst`.
        node: graph node it belongs to.
        module: SystemVerilog module.
        parameters: parameter name to expression over the top's parameters.
        ports: port name to net, clock and reset included.
    """

    name: str
    node: str
    module: str
    parameters: Mapping[str, str]
    ports: Mapping[str, str]


@dataclass(frozen=True)
class Memory:
    """A memory image `mem/<name>.mem`: one hexadecimal word of `width_bits` per line."""

    name: str
    node: str
    width_bits: int
    words: tuple[int, ...]

    @property
    def file(self) -> str:
        """Path below the project folder."""
        return f"mem/{self.name}.mem"

    def render(self) -> str:
        """Return the file's text."""
        digits = -(-self.width_bits // 4)
        return "".join(f"{word:0{digits}x}\n" for word in self.words)


@dataclass(frozen=True)
class Queue:
    """A queue between two streams that meets the delay of another path.

    Attributes:
        node: graph node.
        depth: beats it holds.
        entering: name of the stream that goes in.
        leaving: name of the stream that comes out.
        producer: graph node whose result it holds.
        consumer: graph node, or output, that takes it.
    """

    node: str
    depth: int
    entering: str
    leaving: str
    producer: str
    consumer: str


@dataclass(frozen=True)
class Repeated:
    """A module that the top instances several times with the same parameters.

    Attributes:
        module: SystemVerilog module.
        ports: its ports, clock and reset left out.
    """

    module: str
    ports: tuple[str, ...]


@dataclass(frozen=True)
class NodeSummary:
    """What a report says of one node of the design."""

    node: str
    operator: str
    module: str | None
    work_cycles: int
    multipliers: int
    source: str


@dataclass(frozen=True)
class Design:
    """A whole project before it is written.

    Attributes:
        name: model name.
        inputs: streams that enter, in the order of the model's inputs.
        outputs: streams that leave, in the order of the model's outputs.
        streams: every stream of results inside, in topological order of its producer; what
            `simulate` probes.
        interval_cycles: predicted initiation interval: cycles per inference in steady state.
        latency_cycles: predicted cycles from the first input beat to the last output beat of an
            inference that meets an idle design.
        wires: pairs of streams (driven, driver) that are one and the same.
        copies: pairs of streams (driven, driver) of one payload, whose handshakes differ.
        unused: nets that only take outputs nobody reads.
        queues: queues of computed depth.
        constants: streams of memories to the nodes that take them.
        external: constants that lie outside the chip.
        image: the bytes of that memory.
    """

    name: str
    inputs: tuple[Stream, ...]
    outputs: tuple[Stream, ...]
    streams: tuple[Stream, ...]
    parameters: tuple[Parameter, ...]
    instances: tuple[Instance, ...]
    memories: tuple[Memory, ...]
    nodes: tuple[NodeSummary, ...]
    interval_cycles: int
    latency_cycles: int
    wires: tuple[tuple[Stream, Stream], ...] = ()
    copies: tuple[tuple[Stream, Stream], ...] = ()
    unused: tuple[str, ...] = ()
    queues: tuple[Queue, ...] = ()
    constants: tuple[Stream, ...] = ()
    external: ExternalMemory | None = None
    image: bytes = field(default=b"", repr=False)

    @property
    def modules(self) -> tuple[str, ...]:
        """The library modules that the top instances, each once."""
        return tuple(sorted({instance.module for instance in self.instances}))

    @property
    def repeated(self) -> tuple[Repeated, ...]:
        """The modules of which at least `REPEATS` instances have the same parameters."""
        values = {item.name: item.value for item in self.parameters}

        def resolved(expression: str) -> str:
            found = re.sub(r"[A-Za-z_]\w*", lambda word: values.get(word[0], word[0]), expression)
            return found if found == expression else resolved(found)

        variants = Counter(
            (
                item.module,
                tuple((name, resolved(value)) for name, value in item.parameters.items()),
                tuple(sorted(item.ports)),
            )
            for item in self.instances
        )
        ports: dict[str, set[str]] = {}
        for (module, _, names), count in variants.items():
            if count >= REPEATS:
                ports.setdefault(module, set()).update(names)
        return tuple(
            Repeated(module, tuple(sorted(names - {"clk", "rst"})))
            for module, names in sorted(ports.items())
        )

    def to_json(self) -> str:
        """Return the text of `design.json`."""
        description = {
            "version": DESIGN_VERSION,
            "name": self.name,
            "top": "top",
            "inputs": [stream.to_dict() for stream in self.inputs],
            "outputs": [stream.to_dict() for stream in self.outputs],
            "streams": [stream.to_dict() for stream in self.streams],
            "instances": [
                {"name": item.name, "node": item.node, "module": item.module}
                for item in self.instances
            ],
            "memories": [
                {
                    "file": memory.file,
                    "node": memory.node,
                    "width_bits": memory.width_bits,
                    "depth": len(memory.words),
                }
                for memory in self.memories
            ],
            "repeated": [asdict(item) for item in self.repeated],
            "nodes": [asdict(node) for node in self.nodes],
            "queues": [asdict(queue) for queue in self.queues],
            "external_memory": self.external.to_dict() if self.external else None,
            "predicted": {
                "interval_cycles": self.interval_cycles,
                "latency_cycles": self.latency_cycles,
            },
        }
        return json.dumps(description, indent=2) + "\n"


@dataclass(frozen=True)
class DesignSummary:
    """What a reader of `design.json` gets: the ports, the probes and the predictions."""

    name: str
    inputs: tuple[Stream, ...]
    outputs: tuple[Stream, ...]
    streams: tuple[Stream, ...]
    nodes: tuple[NodeSummary, ...]
    interval_cycles: int
    latency_cycles: int
    queues: tuple[Queue, ...] = ()
    external: ExternalMemory | None = None
    repeated: tuple[Repeated, ...] = ()

    @classmethod
    def load(cls, folder: Path) -> DesignSummary:
        """Read `design.json` of a project folder.

        Raises:
            EmissionError: when the folder is not a project of ours or of another version.
        """
        path = folder / "design.json"
        try:
            entry = json.loads(path.read_text())
        except OSError as error:
            raise EmissionError(
                f"{folder} is not a mase-hw project: {path.name}: {error.strerror}"
            ) from error
        except ValueError as error:
            raise EmissionError(f"{path} is not JSON: {error}; emit the project again") from error
        found = entry.get("version") if isinstance(entry, dict) else None
        if found != DESIGN_VERSION:
            raise EmissionError(
                f"{path} is a design of version {found}; this release reads version "
                f"{DESIGN_VERSION}: emit the project again"
            )
        try:
            return cls._read(entry)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise EmissionError(
                f"{path} is damaged ({type(error).__name__}: {error}); emit the project again"
            ) from error

    @classmethod
    def _read(cls, entry: Mapping[str, Any]) -> DesignSummary:
        external = entry["external_memory"]
        return cls(
            entry["name"],
            tuple(Stream.from_dict(item) for item in entry["inputs"]),
            tuple(Stream.from_dict(item) for item in entry["outputs"]),
            tuple(Stream.from_dict(item) for item in entry["streams"]),
            tuple(NodeSummary(**item) for item in entry["nodes"]),
            entry["predicted"]["interval_cycles"],
            entry["predicted"]["latency_cycles"],
            tuple(Queue(**item) for item in entry["queues"]),
            ExternalMemory.from_dict(external) if external else None,
            tuple(Repeated(item["module"], tuple(item["ports"])) for item in entry["repeated"]),
        )
