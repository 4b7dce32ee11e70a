"""The design that a graph becomes: instances, streams and memories, frozen before rendering.

The same object is rendered into `top.sv` and written to `design.json`, which the simulation reads.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path

import numpy as np

from mase_hw._kinds import Table
from mase_hw._resources import rtl_folder
from mase_hw.cells import Cell, RomSource
from mase_hw.errors import EmissionError
from mase_hw.formats import Encoding, StreamField
from mase_hw.geometry import TensorSpec
from mase_hw.graph.agreement import ModelAgreement
from mase_hw.timing.bounds import progress_cycles
from mase_hw.timing.memory import ExternalMemory

DESIGN_VERSION = 2
TOP = "top"
# Instances of equal parameters from which on a simulation shares their code.
REPEATS = 4


@dataclass(frozen=True)
class Stream:
    """One stream: the port or net `name`, `name_valid`, `name_ready`.

    Attributes:
        name: net name, such as `data_in_0` for a port of the top or `fc1_data_out_0` inside.
        node: the graph node whose result it carries (the placeholder, for an input).
        spec: shape, format and parallelism.
        places: of an input that says a place of a state: how many there are. None for others.
        batch_dim: of a port, the dimension that counts inferences where a caller has several. None
            where that is a leading dimension of 1 of several, or one more than the shape has.
    """

    name: str
    node: str
    spec: TensorSpec
    places: int | None = None
    batch_dim: int | None = None

    @property
    def fields(self) -> tuple[StreamField, ...]:
        """The payload signals of a beat."""
        return self.spec.quantized.stream_fields(self.spec.lanes, self.spec.parallelism[0])

    def to_dict(self) -> dict[str, object]:
        """Return the entry of `design.json`."""
        return {
            "name": self.name,
            "node": self.node,
            "fields": [vars(item) for item in self.fields],
            "beats": self.spec.beats,
            "stream_shape": list(self.spec.stream_shape),
            **({"places": self.places} if self.places is not None else {}),
            **({"batch_dim": self.batch_dim} if self.batch_dim is not None else {}),
            **self.spec.to_dict(),
        }

    @classmethod
    def from_dict(cls, entry: Table) -> Stream:
        """Read what `to_dict` wrote."""
        spec, places = TensorSpec.from_dict(dict(entry)), entry.get("places")
        places = None if places is None else int(places)
        dim = None if entry.get("batch_dim") is None else _whole(entry["batch_dim"])
        return cls(entry["name"], entry["node"], spec, places, dim)

    def rows(self, inferences: int) -> tuple[int, ...]:
        """Return the shape of several inferences in which blocks lie along the format's axis."""
        shape = self.spec.shape
        return (inferences * shape[0], *shape[1:]) if shape else (inferences,)

    def several(self, inferences: int) -> tuple[int, ...]:
        """Return the shape of several inferences, which are counted by the first dimension."""
        shape = self.spec.shape
        if self.batch_dim is not None or (len(shape) > 1 and shape[0] == 1):
            return (inferences, *shape[1:])
        return (inferences, *shape)


@dataclass(frozen=True)
class Net:
    """The nets of a stream in the top.

    Attributes:
        name: of the elements; `name_valid` and `name_ready` are the handshake.
        fields: the payload.
    """

    name: str
    fields: tuple[StreamField, ...]

    @property
    def payload(self) -> str:
        """All signals of the payload as one vector, the first in the low bits."""
        return concatenated([f"{self.name}{item.suffix}" for item in self.fields])


def concatenated(nets: list[str]) -> str:
    """Return a SystemVerilog concatenation with the first net in the low bits."""
    return nets[0] if len(nets) == 1 else f"{{{', '.join(reversed(nets))}}}"


def expressions(cell: Cell, formats: Mapping[Encoding, str]) -> dict[str, str]:
    """Return the parameters of a cell in SystemVerilog, but for files.

    Args:
        cell: the cell.
        formats: names of encodings.
    """

    def expression(value: object) -> str:
        if isinstance(value, bool):
            return f"1'b{int(value)}"
        if isinstance(value, Encoding):
            return formats[value]
        if isinstance(value, int) and value >= 1 << 31:
            return f"64'd{value}"
        return f"mase_pkg::{value.value}" if isinstance(value, Enum) else str(value)

    return {name: expression(value) for name, value in cell.arguments.items()}


@dataclass(frozen=True)
class Instance:
    """One instance of a module in the top.

    Attributes:
        name: instance name, such as `fc1_inst`.
        node: graph node it belongs to.
        cell: what it is an instance of.
        files: memory images by parameter.
        ports: groups of ports that belong together, each port with its net.
        streams: the stream on each stream port, inputs first.
        unused: nets that only take outputs which nobody reads.
    """

    name: str
    node: str
    cell: Cell
    files: Mapping[str, Memory]
    ports: tuple[tuple[tuple[str, str], ...], ...]
    streams: Mapping[str, str]
    unused: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The name of the SystemVerilog module."""
        return self.cell.module

    @property
    def port_names(self) -> tuple[str, ...]:
        """All its ports, clock and reset left out."""
        return tuple(name for group in self.ports for name, _ in group)


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
        if digits > 16:
            octets = -(-digits // 2)
            long = (word.to_bytes(octets, "big").hex()[-digits:] for word in self.words)
            return "\n".join([*long, ""])
        words = np.array(self.words, dtype=np.uint64)
        shifts = np.arange(digits - 1, -1, -1, dtype=np.uint64) * np.uint64(4)
        places = (words[:, None] >> shifts) & np.uint64(15)
        lines = np.full((len(words), digits + 1), ord("\n"), dtype=np.uint8)
        lines[:, :-1] = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[places]
        return lines.tobytes().decode()


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
class Constant:
    """A constant operand, and the memory whose words are its beats.

    Attributes:
        name: its stream.
        node: graph node that takes it.
        operand: the node's operand.
        source: the cell that sends it when it lies on chip.
        file: image of its words; of the external memory where it lies outside.
    """

    name: str
    node: str
    operand: str
    source: RomSource
    file: str

    def to_dict(self) -> dict[str, object]:
        """Return the entry of `design.json`."""
        spec = self.source.spec
        return {
            "name": self.name,
            "node": self.node,
            "operand": self.operand,
            "file": self.file,
            "words": self.source.depth,
            "hold": self.source.hold,
            "width_bits": self.source.port.width_bits,
            "fields": [vars(item) for item in self.source.port.fields],
            **(spec.to_dict() if spec else {}),
        }


@dataclass(frozen=True)
class Load:
    """A memory whose words can be loaded.

    Attributes:
        constant: stream of its words.
        file: image of the words that it begins with.
        words: number of words.
        width_bits: bits of a word, each of which is loaded as whole bytes.
    """

    constant: str
    file: str
    words: int
    width_bits: int

    @property
    def word_bytes(self) -> int:
        """Bytes of a word in an image."""
        return -(-self.width_bits // 8)

    @property
    def bytes(self) -> int:
        """Bytes in an image."""
        return self.words * self.word_bytes

    def to_dict(self) -> dict[str, object]:
        """Return the entry of `design.json`."""
        return asdict(self)


@dataclass(frozen=True)
class Repeated:
    """A module that a design instances several times with the same parameters.

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

    @property
    def where(self) -> str:
        """The module, and the user's source line where it is known."""
        return ", ".join(item for item in (self.module, self.source) if item and item != "-")


@dataclass(frozen=True)
class Section:
    """What belongs together in the text of the top: a node with its nets and instances.

    Attributes:
        title: lines of the comment above it.
        nets: streams that are declared here.
        instances: in dataflow order.
        wires: pairs of nets (driven, driver) that are one and the same stream.
        copies: pairs of nets (driven, driver) of one payload, whose handshakes differ.
    """

    title: tuple[str, ...]
    nets: tuple[Net, ...] = ()
    instances: tuple[Instance, ...] = ()
    wires: tuple[tuple[Net, Net], ...] = ()
    copies: tuple[tuple[Net, Net], ...] = ()


@dataclass(frozen=True)
class Design:
    """A whole project before it is written.

    Attributes:
        name: model name.
        inputs: streams that enter, in the order of the model's inputs.
        outputs: streams that leave, in the order of the model's outputs.
        streams: the result of every node, in topological order; what `simulate` probes.
        sections: the top, node by node in dataflow order.
        memories: images of memories on chip.
        nodes: what a report says of every node.
        interval_cycles: predicted initiation interval: cycles per inference in steady state.
        latency_cycles: predicted cycles from the first input beat to the last output beat of an
            inference that meets an idle design.
        queues: queues of computed depth.
        constants: streams of memories to the nodes that take them.
        formats: names of the encodings in the top.
        external: constants that lie outside the chip.
        image: the bytes of that memory.
        sketched: whether the latency follows some beats of each tensor alone; see `Prediction`.
        keeps_state: whether a result depends on inferences before.
        agreement: how far the quantised graph is from the float model, where that was measured.
        loads: constants whose words can be loaded, in the order of their bytes.
        tensor_parameters: parameters of the top that restate formats, shapes and parallelism.
        roundings: how many roundings of the model are kept, of how many.
    """

    name: str
    inputs: tuple[Stream, ...]
    outputs: tuple[Stream, ...]
    streams: tuple[Stream, ...]
    sections: tuple[Section, ...]
    memories: tuple[Memory, ...]
    nodes: tuple[NodeSummary, ...]
    interval_cycles: int
    latency_cycles: int
    queues: tuple[Queue, ...] = ()
    constants: tuple[Constant, ...] = ()
    formats: Mapping[Encoding, str] = field(default_factory=dict)
    external: ExternalMemory | None = None
    image: bytes = field(default=b"", repr=False)
    sketched: bool = False
    keeps_state: bool = False
    agreement: ModelAgreement | None = None
    loads: tuple[Constant, ...] = ()
    tensor_parameters: Mapping[str, int] = field(default_factory=dict)
    roundings: tuple[int, int] = (0, 0)

    @property
    def instances(self) -> tuple[Instance, ...]:
        """Every instance of the top."""
        return tuple(item for section in self.sections for item in section.instances)

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that the top instances, each once."""
        return tuple(sorted({instance.module for instance in self.instances}))

    @property
    def load_row(self) -> tuple[Load, ...]:
        """The memories that are loaded, in the order of their bytes."""
        return tuple(
            Load(item.name, item.file, item.source.depth, item.source.image.width_bits)
            for item in self.loads
        )

    def parameters(self, instance: Instance) -> dict[str, str]:
        """Return the parameters of an instance as expressions in the top."""
        files = {
            name: f'{{MEM_DIR, "/{memory.name}.mem"}}' for name, memory in instance.files.items()
        }
        return {**expressions(instance.cell, self.formats), **files}

    @property
    def repeated(self) -> tuple[Repeated, ...]:
        """The modules of which at least `REPEATS` instances have the same parameters.

        Those that cells repeat inside them are among them.
        """
        variants = Counter(
            (item.module, tuple(self.parameters(item).items()), tuple(sorted(item.port_names)))
            for item in self.instances
        )
        inside = {module for item in self.instances for module in item.cell.repeated}
        ports = {module: set(library_ports(module)) for module in inside}
        for (module, _, names), count in variants.items():
            if count >= REPEATS:
                ports.setdefault(module, set()).update(names)
        return tuple(
            Repeated(module, tuple(sorted(names))) for module, names in sorted(ports.items())
        )

    def to_json(self) -> str:
        """Return the text of `design.json`."""
        description = {
            "version": DESIGN_VERSION,
            "name": self.name,
            "top": TOP,
            "inputs": [stream.to_dict() for stream in self.inputs],
            "outputs": [stream.to_dict() for stream in self.outputs],
            "streams": [stream.to_dict() for stream in self.streams],
            "constants": [constant.to_dict() for constant in self.constants],
            "instances": [
                {
                    "name": item.name,
                    "node": item.node,
                    "module": item.module,
                    "parameters": self.parameters(item),
                    "streams": dict(item.streams),
                    **_progress(item.cell),
                }
                for item in self.instances
            ],
            "formats": {name: _plain(encoding) for encoding, name in self.formats.items()},
            "connections": [
                {"stream": driven.name, "is": driver.name, "copy": copy}
                for driven, driver, copy in self._connections()
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
            "keeps_state": self.keeps_state,
            "agreement": self.agreement.to_dict() if self.agreement else None,
            **({"roundings_kept": list(self.roundings)} if self.roundings[1] else {}),
            **({"loads": [load.to_dict() for load in self.load_row]} if self.loads else {}),
            "predicted": {
                "interval_cycles": self.interval_cycles,
                "latency_cycles": self.latency_cycles,
                **({"sketched": True} if self.sketched else {}),
            },
        }
        return json.dumps(description, indent=2) + "\n"

    def _connections(self) -> Iterator[tuple[Net, Net, bool]]:
        for section in self.sections:
            yield from ((*pair, True) for pair in section.copies)
            yield from ((*pair, False) for pair in section.wires)


def _plain(encoding: Encoding) -> dict[str, object]:
    return {
        name: value.value if isinstance(value, Enum) else value
        for name, value in (asdict(encoding) | {"kind": encoding.kind.word}).items()
    }


@dataclass(frozen=True)
class Watched:
    """An instance of the top that must offer results.

    Attributes:
        name: instance name.
        inputs: beats of an inference of each stream that enters, by net.
        output: net of the stream that leaves.
        beats: of an inference of that.
        cycles: within which a result is offered once all inputs have brought an inference.
    """

    name: str
    inputs: Mapping[str, int]
    output: str
    beats: int
    cycles: int

    @classmethod
    def read(cls, entry: Table) -> Watched:
        """Read it from an instance of `design.json`."""
        *inputs, output = ((entry["streams"][port], n) for port, n in entry["beats"].items())
        counts = {net: _whole(beats) for net, beats in inputs}
        return cls(entry["name"], counts, *output, _whole(entry["progress_cycles"]))


@dataclass(frozen=True)
class DesignSummary:
    """What a reader of `design.json` gets: the ports, the probes and the predictions.

    Attributes:
        owners: graph node by instance of the top.
        watched: instances that must make progress.
        memories: words of each memory image.
        sketched: whether the predicted latency is nearly that of the design, and no more.
        keeps_state: whether a result depends on inferences before.
        agreement: how far the quantised graph is from the float model, where that was measured.
        loads: memories whose words can be loaded, in the order of their bytes.
        roundings: how many roundings of the model are kept, of how many.
    """

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
    owners: Mapping[str, str] = field(default_factory=dict)
    watched: tuple[Watched, ...] = ()
    memories: Mapping[str, int] = field(default_factory=dict)
    sketched: bool = False
    keeps_state: bool = False
    agreement: ModelAgreement | None = None
    loads: tuple[Load, ...] = ()
    roundings: tuple[int, int] = (0, 0)

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
    def _read(cls, entry: Table) -> DesignSummary:
        external = entry["external_memory"]
        for end in ("inputs", "outputs"):
            if not entry[end]:
                raise ValueError(f"no {end}")
        predicted = entry["predicted"]
        return cls(
            entry["name"],
            tuple(Stream.from_dict(item) for item in entry["inputs"]),
            tuple(Stream.from_dict(item) for item in entry["outputs"]),
            tuple(Stream.from_dict(item) for item in entry["streams"]),
            tuple(NodeSummary(**item) for item in entry["nodes"]),
            _whole(predicted["interval_cycles"]),
            _whole(predicted["latency_cycles"]),
            tuple(Queue(**item) for item in entry["queues"]),
            ExternalMemory.from_dict(external) if external else None,
            tuple(Repeated(item["module"], tuple(item["ports"])) for item in entry["repeated"]),
            {item["name"]: item["node"] for item in entry["instances"]},
            tuple(Watched.read(item) for item in entry["instances"] if "progress_cycles" in item),
            {item["file"]: _whole(item["depth"]) for item in entry["memories"]},
            bool(predicted.get("sketched", False)),
            bool(entry.get("keeps_state", False)),
            ModelAgreement.from_dict(found) if (found := entry.get("agreement")) else None,
            tuple(Load(**item) for item in entry.get("loads", [])),
            _pair(entry.get("roundings_kept", (0, 0))),
        )


def _progress(cell: Cell) -> dict[str, object]:
    """Return the beats of an inference on each port, and the bound of a result, if there is one."""
    cycles = progress_cycles(cell)
    ports = {**cell.inputs, **cell.outputs}
    beats = {name: port.beats for name, port in ports.items() if port.beats}
    return {} if cycles is None else {"beats": beats, "progress_cycles": cycles}


def _pair(value: Sequence[object]) -> tuple[int, int]:
    kept, every = map(_whole, value)
    return kept, every


def _whole(value: object) -> int:
    """Return a count, or raise what says that it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


@cache
def library() -> Mapping[str, str]:
    """Return the text of every module and package of the library."""
    return {path.stem: path.read_text() for path in sorted(rtl_folder().rglob("*.sv"))}


def library_ports(module: str) -> frozenset[str]:
    """Return the ports of a module of the library, clock and reset left out."""
    return declared_names(module, library()[module])["port"] - {"clk", "rst"}


@cache
def declared_names(module: str, text: str) -> Mapping[str, frozenset[str]]:
    """Return the names in the header of a module: `port`, `input`, `output`, `parameter`."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    header = text[text.index(f"module {module}") :]
    header = header[: header.index(");") + 2]
    ports = re.findall(r"\b(input|output)\b[^,;()]*?\b(\w+)\s*(?=,|\)|$)", _flat(header))
    parameters = re.findall(r"\bparameter\b[^=;]*?\b(\w+)\s*=", header)
    return {
        "port": frozenset(name for _, name in ports),
        **{way: frozenset(name for to, name in ports if to == way) for way in ("input", "output")},
        "parameter": frozenset(parameters),
    }


def _flat(header: str) -> str:
    """Return a header without what stands in brackets, where commas and names may be."""
    while True:
        shorter = re.sub(r"\[[^\[\]]*\]", " ", header)
        if shorter == header:
            return header
        header = shorter
