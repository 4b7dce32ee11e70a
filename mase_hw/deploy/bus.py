"""Bus ports round the top of a project: which there are, and writing them beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mase_hw._resources import template_environment
from mase_hw.deploy.c_header import render_header
from mase_hw.deploy.packets import Packet
from mase_hw.emit.design import DesignSummary, Load
from mase_hw.emit.modules import with_inner_texts
from mase_hw.errors import ConfigError
from mase_hw.registry import nearest
from mase_hw.timing.memory import ExternalMemory

WIDTHS = tuple(8 << power for power in range(8))
# Of bursts of 16 words, which lie in 4 KiB; 32 bits unless another width is asked for.
MEMORY_WIDTHS = WIDTHS[2:]
MOST_PORTS = 8
# What wraps the top, by the word a command uses: module, template, whether it has registers.
KINDS: Mapping[str, tuple[str, str, bool]] = {
    "axi-stream": ("top_axis", "axi_stream.sv.j2", True),
    "axi-memory": ("top_memory", "axi_stream.sv.j2", True),
    "uart": ("top_uart", "uart.sv.j2", False),
}
BUS_FOLDER = "bus"
REGISTERS = "mase_control"
MEMORY_REGISTERS = "mase_memory_control"


@dataclass(frozen=True)
class BusOptions:
    """What a user asks for.

    Attributes:
        kind: one of `KINDS`.
        width_bits: of every stream of the bus; None for one word a beat.
        own_clock: whether the design has another clock than the bus.
    """

    kind: str
    width_bits: int | None = None
    own_clock: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"no bus is called {self.kind!r}; {nearest(self.kind, KINDS)}")
        if self.kind == "axi-memory" and (self.width_bits or 32) not in MEMORY_WIDTHS:
            raise ConfigError(
                f"--bus axi-memory has no words of {self.width_bits} bits; allowed: "
                f"{', '.join(map(str, MEMORY_WIDTHS))}"
            )
        if self.kind == "uart" and self.own_clock:
            raise ConfigError("a serial line has no clock: leave --own-clock out")
        if self.kind == "uart" and self.width_bits not in (None, 8):
            raise ConfigError(f"bus width is {self.width_bits}; allowed on a serial line: 8")
        if self.width_bits is not None and self.width_bits not in WIDTHS:
            raise ConfigError(
                f"bus width is {self.width_bits}; allowed: {', '.join(map(str, WIDTHS))}"
            )


def bus_options(
    kind: str | None, width_bits: int | None, *, own_clock: bool = False
) -> BusOptions | None:
    """Return what the options of a command ask for; None for no bus.

    Raises:
        ConfigError: for an option of a bus without one, or one that is not allowed.
    """
    if kind is not None:
        return BusOptions(kind, width_bits, own_clock)
    given = {"--bus-width": width_bits is not None, "--own-clock": own_clock}
    for name, is_given in given.items():
        if is_given:
            raise ConfigError(f"{name} belongs to bus ports: add --bus {' or '.join(KINDS)}")
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
            ConfigError: for more streams than the registers can tell apart.
            EmissionError: for a stream that no packet can hold.
        """
        for what, streams in (("inputs", summary.inputs), ("outputs", summary.outputs)):
            if len(streams) > MOST_PORTS:
                raise ConfigError(
                    f"the design has {len(streams)} {what}; a bus has registers for "
                    f"at most {MOST_PORTS}"
                )
        if summary.loads and (options.kind == "uart" or options.own_clock):
            raise ConfigError(
                "weights are loaded through the registers of --bus axi-stream or axi-memory, "
                "without --own-clock"
            )
        if options.kind == "uart" and summary.external is not None:
            raise ConfigError(
                "weights outside the chip need a memory, and a serial line has none: "
                "take --bus axi-stream"
            )
        if options.kind == "axi-memory":
            _check_memory(summary)
        width = {"uart": 8, "axi-memory": options.width_bits or 32}.get(
            options.kind, options.width_bits
        )
        inputs, outputs = (
            tuple(Packet.of(stream, width) for stream in streams)
            for streams in (summary.inputs, summary.outputs)
        )
        return cls(options, inputs, outputs, core_hash(folder), summary.external, summary.loads)

    @property
    def module(self) -> str:
        """The module of the wrapped design."""
        return KINDS[self.options.kind][0]

    @property
    def has_registers(self) -> bool:
        """Whether it is controlled through registers."""
        return KINDS[self.options.kind][2]

    @property
    def in_memory(self) -> bool:
        """Whether inputs and results lie in a memory."""
        return self.options.kind == "axi-memory"

    @property
    def registers(self) -> str:
        """The module of its registers."""
        return MEMORY_REGISTERS if self.in_memory else REGISTERS

    @property
    def address_bits(self) -> int:
        """Bits of the addresses of registers."""
        return 7 if self.in_memory else 6

    @property
    def description(self) -> tuple[int, ...]:
        """The words that the registers show of all streams."""
        return tuple(word for item in (*self.inputs, *self.outputs) for word in item.description)

    @cached_property
    def hash(self) -> int:
        """64 bits that tell the design with this bus from any other."""
        ports = [item.to_dict() for item in (*self.inputs, *self.outputs)]
        text = json.dumps([self.core_hash, self.options.kind, ports], sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def to_dict(self) -> dict[str, object]:
        """Return the key `bus` of `design.json`."""
        return {
            "kind": self.options.kind,
            "module": self.module,
            "files": f"{BUS_FOLDER}/files.f",
            "hash": f"{self.hash:016x}",
            "own_clock": self.options.own_clock,
            "inputs": [item.to_dict() for item in self.inputs],
            "outputs": [item.to_dict() for item in self.outputs],
        }


def _check_memory(summary: DesignSummary) -> None:
    """Refuse a design that a start with two addresses cannot run.

    Raises:
        ConfigError: for several inputs or outputs, or weights outside the chip.
    """
    if len(summary.inputs) > 1 or len(summary.outputs) > 1:
        raise ConfigError(
            f"--bus axi-memory is for designs with one input and one result; this one has "
            f"{len(summary.inputs)} and {len(summary.outputs)}: take --bus axi-stream"
        )
    if summary.external is not None:
        raise ConfigError(
            "weights outside the chip have a port of their own: take --bus axi-stream"
        )


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
    (target / f"{bus.module}.sv").write_text(text)
    core = (folder / "files.f").read_text().split()
    inner = with_inner_texts([bus.module], {bus.module: text})
    own = [name for name in inner if name != bus.module and f"rtl/{name}.sv" not in core]
    for name in own:
        (target / f"{name}.sv").write_text(inner[name])
    registers = [bus.registers] if bus.has_registers else []
    for name in registers:
        for path in sorted(registers_folder().glob(f"{name}*")):
            (target / path.name).write_bytes(path.read_bytes())
    before = [f"{BUS_FOLDER}/{name}_pkg.sv" for name in registers]
    after = [*registers, *own, bus.module]
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
    _, template, _ = KINDS[bus.options.kind]
    return template_environment().get_template(template).render(bus=bus)
