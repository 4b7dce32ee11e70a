"""Bus ports round the top of a project: which there are, and writing them beside it."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mase_hw._resources import template_environment
from mase_hw.deploy.buses._base import MOST_PORTS, BusKind
from mase_hw.deploy.driver import registers as at
from mase_hw.deploy.packets import Codes, Packet
from mase_hw.emit.design import DesignSummary, Load
from mase_hw.emit.modules import with_inner_texts
from mase_hw.errors import ConfigError, EmissionError
from mase_hw.registry import discover, nearest
from mase_hw.timing.memory import ExternalMemory

BUS_FOLDER = "bus"


@functools.cache
def bus_kinds() -> Mapping[str, type[BusKind]]:
    """Return the kinds of buses by name: those of this package, and of entry points."""
    found = discover("mase_hw.deploy.buses", BusKind, "mase_hw.buses")  # type: ignore[type-abstract]
    return {kind.name: kind for kind in found}


@dataclass(frozen=True)
class BusOptions:
    """Choice of bus ports.

    Attributes:
        name: one of `bus_kinds()`.
        width_bits: bits of every stream of the bus; None for the least that the bus takes.
        own_clock: a clock of its own for the design.

    Raises:
        ConfigError: for a bus that is not there, or an option that it does not have.
    """

    name: str
    width_bits: int | None = None
    own_clock: bool = False

    def __post_init__(self) -> None:
        if self.name not in bus_kinds():
            raise ConfigError(f"no bus is called {self.name!r}; {nearest(self.name, bus_kinds())}")
        self.kind.check_options(self.width_bits, self.own_clock)

    @property
    def kind(self) -> type[BusKind]:
        """The kind of bus."""
        return bus_kinds()[self.name]


def bus_options(
    name: str | None, width_bits: int | None, *, own_clock: bool = False
) -> BusOptions | None:
    """Bus of the options of a command; None without one.

    Raises:
        ConfigError: for an option of a bus without one, or one that is not allowed.
    """
    if name is not None:
        return BusOptions(name, width_bits, own_clock)
    for option, is_set in (("--bus-width", width_bits is not None), ("--own-clock", own_clock)):
        if is_set:
            raise ConfigError(
                f"{option} belongs to bus ports: add --bus {' or '.join(bus_kinds())}"
            )
    return None


@dataclass(frozen=True)
class Bus:
    """The bus ports of a design, frozen before rendering.

    Attributes:
        options: what was asked for.
        inputs: packets of the inputs.
        outputs: packets of the outputs.
        core_hash: SHA-256 of all that computes.
        external: the memory of constants outside, if any.
        loads: memories whose words can be loaded.
    """

    options: BusOptions
    inputs: tuple[Packet, ...]
    outputs: tuple[Packet, ...]
    core_hash: str
    external: ExternalMemory | None = None
    loads: tuple[Load, ...] = ()

    @classmethod
    def of(cls, folder: Path, summary: DesignSummary, options: BusOptions) -> Bus:
        """Return the bus ports of a project that lies in `folder`.

        Raises:
            ConfigError: for more streams than the registers can tell apart, or a design that the
                bus cannot serve.
            EmissionError: for a stream that no packet can hold.
        """
        for what, streams in (("inputs", summary.inputs), ("outputs", summary.outputs)):
            if len(streams) > MOST_PORTS:
                raise ConfigError(
                    f"the design has {len(streams)} {what}; a bus has registers for "
                    f"at most {MOST_PORTS}"
                )
        if summary.loads and options.own_clock:
            raise ConfigError("weights are loaded without --own-clock")
        options.kind.check_design(summary)
        inputs, outputs = (
            tuple(
                Packet.of(stream, options.width_bits or options.kind.width_bits)
                for stream in streams
            )
            for streams in (summary.inputs, summary.outputs)
        )
        return cls(options, inputs, outputs, core_hash(folder), summary.external, summary.loads)

    @property
    def kind(self) -> type[BusKind]:
        """The kind of bus."""
        return self.options.kind

    @property
    def description(self) -> tuple[int, ...]:
        """The words that the registers show of all streams."""
        return tuple(word for item in (*self.inputs, *self.outputs) for word in item.description)

    @cached_property
    def hash(self) -> int:
        """64 bits that tell the design with this bus from any other."""
        ports = [item.to_dict() for item in (*self.inputs, *self.outputs)]
        text = json.dumps([self.core_hash, self.kind.name, ports], sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def to_dict(self) -> dict[str, object]:
        """Return the key `bus` of `design.json`."""
        return {
            "kind": self.kind.name,
            "module": self.kind.module,
            "files": f"{BUS_FOLDER}/files.f",
            "hash": f"{self.hash:016x}",
            "own_clock": self.options.own_clock,
            "inputs": [item.to_dict() for item in self.inputs],
            "outputs": [item.to_dict() for item in self.outputs],
        }


def core_hash(folder: Path) -> str:
    """Return the SHA-256 of the sources and memory images of a project."""
    digest = hashlib.sha256()
    names = sorted(path for path in folder.rglob("*") if path.suffix in (".sv", ".mem", ".bin"))
    for path in names:
        where = path.relative_to(folder)
        if where.parts[0] in ("rtl", "mem", "top.sv"):
            digest.update(
                f"{where.as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
            )
    return digest.hexdigest()


def write_bus(folder: Path, summary: DesignSummary, bus: Bus) -> None:
    """Write the bus ports of a project into it, and tell them in `design.json`."""
    target = folder / BUS_FOLDER
    target.mkdir()
    text = render_bus(bus)
    (target / f"{bus.kind.module}.sv").write_text(text)
    core = (folder / "files.f").read_text().split()
    inner = with_inner_texts([bus.kind.module], {bus.kind.module: text})
    own = [name for name in inner if name != bus.kind.module and f"rtl/{name}.sv" not in core]
    for name in own:
        (target / f"{name}.sv").write_text(inner[name])
    registers = [bus.kind.registers] if bus.kind.registers else []
    for name in registers:
        for path in sorted(registers_folder().glob(f"{name}*")):
            (target / path.name).write_bytes(path.read_bytes())
    before = [f"{BUS_FOLDER}/{name}_pkg.sv" for name in registers]
    after = [*registers, *own, bus.kind.module]
    files = [*before, *core, *(f"{BUS_FOLDER}/{name}.sv" for name in after)]
    (target / "files.f").write_text("".join(f"{name}\n" for name in files))
    driver = folder / "driver"
    driver.mkdir()
    for path in sorted(Path(__file__).with_name("driver").iterdir()):
        if path.suffix not in (".py", ".cpp"):
            continue
        (driver / path.name).write_bytes(path.read_bytes())
    (driver / "mase_driver.h").write_text(render_header(bus, summary.name))
    design = json.loads((folder / "design.json").read_text())
    design["bus"] = bus.to_dict()
    (folder / "design.json").write_text(json.dumps(design, indent=2) + "\n")


def registers_folder() -> Path:
    """Return the folder of the register map and of what is generated from it."""
    return Path(__file__).with_name("registers")


def render_bus(bus: Bus) -> str:
    """Return the SystemVerilog of the wrapped design."""
    return template_environment().get_template(bus.kind.template).render(bus=bus)


MOST_DIMENSIONS = 8


def render_header(bus: object, name: str) -> str:
    """Return the text of `mase_driver.h`.

    Args:
        bus: the `Bus`.
        name: of the design.

    Raises:
        EmissionError: for a tensor of too many dimensions.
    """
    environment = template_environment()
    environment.filters["c_port"] = c_port
    return environment.get_template("driver.h.j2").render(
        bus=bus, name=name, at={key: getattr(at, key) for key in dir(at) if key.isupper()}
    )


def c_port(packet: Packet) -> dict[str, object]:
    """Return the numbers of the table of a port."""
    spec = packet.stream.spec
    view, axes = (spec.order.view, spec.order.axes) if spec.order else (spec.shape, None)
    if len(view) > MOST_DIMENSIONS:
        raise EmissionError(
            f"{packet.stream.name} has {len(view)} dimensions; the C header takes {MOST_DIMENSIONS}"
        )
    strides = [math.prod(view[axis + 1 :]) for axis in range(len(view))]
    order = axes if axes is not None else range(len(view))
    elements, *shared = packet.stream.fields
    codes = Codes.of(spec.quantized)
    return {
        "dims": [view[axis] for axis in order],
        "strides": [strides[axis] for axis in order],
        "size": spec.size,
        "bits": elements.width_bits,
        "scale_bits": shared[0].width_bits if shared else 0,
        "scales": shared[0].lanes if shared else 0,
        "minimum": codes.minimum,
        "maximum": codes.maximum,
    }
