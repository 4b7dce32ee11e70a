"""Place and route of an emitted project: clock rate, utilisation, the critical path, a bitstream.

Without pins, a wrapper puts a flip-flop at every bit of every port, so that paths from and to ports
count like any other; see `mase_hw.hardware._wrapper`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mase_hw._results import check_result, result_file
from mase_hw.errors import RoutingError
from mase_hw.hardware._nextpnr import (
    NETLIST,
    Segment,
    check_installed,
    pack,
    place_and_route,
    too_large,
)
from mase_hw.hardware._wrapper import CLOCK, INSTANCE, Wrapper
from mase_hw.hardware.synth import Entry, Netlist, SynthesisReport, synthesize
from mase_hw.hardware.targets import Part, RoutableTarget, find_target, targets

if TYPE_CHECKING:
    from rich.table import Table

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One placement.

    Attributes:
        seed: what the placer started from.
        fmax_mhz: highest clock.
        used: resources by name: used and available, the wrapper's included.
        path: what limits the clock.
    """

    seed: int
    fmax_mhz: float
    used: Mapping[str, tuple[int, int]]
    path: CriticalPath


@dataclass(frozen=True)
class RouteReport:
    """What placing and routing a design gave.

    Attributes:
        part: the FPGA.
        runs: one per seed, by clock rate.
        synthesis: resources by node.
        interval_cycles: predicted cycles from one inference to the next.
        latency_cycles: predicted cycles of an inference.
        clock_mhz: the clock that was asked for, if any.
        wrapper: what stood around the top; None for pins.
        bitstream: the file that was written, from the fastest run; none where the clock is not
            met.
        note: what a user should know of the figures.
    """

    part: Part
    runs: tuple[Run, ...]
    synthesis: SynthesisReport
    interval_cycles: int
    latency_cycles: int
    clock_mhz: float | None
    wrapper: Wrapper | None
    bitstream: Path | None = None
    note: str = ""

    @property
    def median(self) -> Run:
        """The run in the middle; of an even number, the slower of the two."""
        return self.runs[(len(self.runs) - 1) // 2]

    @property
    def best(self) -> Run:
        """The placement with the highest clock rate."""
        return self.runs[-1]

    @property
    def fmax_mhz(self) -> float:
        """Clock rate of the median run."""
        return self.median.fmax_mhz

    @property
    def is_met(self) -> bool:
        """Whether a run reaches the clock that was asked for; true when none was."""
        return self.clock_mhz is None or self.best.fmax_mhz >= self.clock_mhz

    @property
    def rate_mhz(self) -> float:
        """The clock of `latency_seconds`: the one asked for where it is met, else the median."""
        return self.clock_mhz if self.clock_mhz is not None and self.is_met else self.fmax_mhz

    @property
    def latency_seconds(self) -> float:
        """Time from the first beat in to the last beat out."""
        return self.latency_cycles / (self.rate_mhz * 1e6)

    @property
    def inferences_per_second(self) -> float:
        """Rate in steady state."""
        return self.rate_mhz * 1e6 / self.interval_cycles

    def check_clock(self) -> None:
        """Raise unless the clock that was asked for is met.

        Raises:
            RoutingError: with what limits the fastest run.
        """
        if self.is_met:
            return
        tried = f"{len(self.runs)} seeds" if len(self.runs) > 1 else "one seed"
        grade = ", a faster --speed" if self.part.speed else ""
        raise RoutingError(
            f"the clock of {self.clock_mhz:g} MHz is not met on {self.part}: the fastest of "
            f"{tried} reaches {self.best.fmax_mhz:.1f} MHz, limited by {self.best.path}; "
            f"lower --clock, or try more --seeds{grade}"
        )

    def to_dict(self) -> dict[str, object]:
        """Return the figures of the median run, every seed's clock rate, and the resources."""
        return {
            "device": self.part.device,
            "speed": self.part.speed,
            "package": self.part.package,
            "ports": self.wrapper or "pins",
            "fmax_mhz": round(self.fmax_mhz, 2),
            "seeds": {str(run.seed): round(run.fmax_mhz, 2) for run in self.runs},
            "clock_mhz": self.clock_mhz,
            "clock_met": None if self.clock_mhz is None else self.is_met,
            "interval_cycles": self.interval_cycles,
            "latency_cycles": self.latency_cycles,
            "latency_seconds": self.latency_seconds,
            "inferences_per_second": self.inferences_per_second,
            "utilisation": {
                name: {"used": used, "available": available}
                for name, (used, available) in self.median.used.items()
            },
            "critical_path": self.median.path.to_dict(),
            "bitstream": str(self.bitstream) if self.bitstream else None,
            "note": self.note,
            "synthesis": self.synthesis.to_dict(),
        }

    def tables(self) -> list[Table]:
        """Tables for rich: figures, then the critical path of the median run."""
        return [self._figures(), self._path()]

    def _figures(self) -> Table:
        from rich.table import Table

        table = Table("what", "result", title=f"Placed and routed on {self.part}")
        rates = [run.fmax_mhz for run in self.runs]
        seeds = f" (median of {len(rates)} seeds)" if len(rates) > 1 else ""
        table.add_row(f"clock{seeds}", f"{self.fmax_mhz:.1f} MHz")
        if len(rates) > 1:
            table.add_row("clock, slowest to fastest", f"{rates[0]:.1f} to {rates[-1]:.1f} MHz")
        at = f"at {self.rate_mhz:.1f} MHz"
        table.add_row(
            f"latency, predicted, {at}",
            f"{self.latency_cycles:,} cycles = {_seconds(self.latency_seconds)}",
        )
        table.add_row(
            f"interval, predicted, {at}",
            f"{self.interval_cycles:,} cycles = {self.inferences_per_second:,.0f} inferences/s",
        )
        for name, (used, available) in self.median.used.items():
            share = f" ({used / available:.0%})" if available else ""
            table.add_row(name, f"{used:,} of {available:,}{share}")
        ports = {
            None: "pins; paths to them do not count",
            "registered": "flip-flops (counted above), no pins",
            "serial": "flip-flops (counted above) in two shift registers",
        }
        table.add_row("ports of the top", ports[self.wrapper])
        if self.bitstream:
            table.add_row("bitstream", str(self.bitstream))
        if self.note:
            table.add_row("note", self.note)
        return table

    def _path(self) -> Table:
        from rich.table import Table

        path = self.median.path
        title = f"Critical path: {path.logic_ns:.2f} ns logic, {path.routing_ns:.2f} ns routing"
        table = Table(title=title)
        for heading in ("node", "module", "through", "signal"):
            table.add_column(heading, overflow="fold")
        for heading in ("routing ns", "logic ns"):
            table.add_column(heading, justify="right")
        for step in path.steps:
            through = f"{step.kind} x {step.cells}" if step.cells > 1 else step.kind
            delays = (f"{step.routing_ns:.2f}", f"{step.logic_ns:.2f}")
            table.add_row(step.node, step.module, through, step.signal, *delays)
        return table


def route(
    project: Path,
    target: str = "ecp5",
    *,
    device: str | None = None,
    speed: str | None = None,
    package: str | None = None,
    dsp: bool = True,
    seeds: int = 1,
    clock_mhz: float | None = None,
    bitstream: Path | None = None,
    constraints: Path | None = None,
    serial_ports: bool = False,
    rip_up: bool = False,
    progress: Progress | None = None,
    entry: Entry | None = None,
) -> RouteReport:
    """Synthesize, place and route an emitted project.

    Args:
        project: folder with `top.sv`, `files.f`, `mem/` and `design.json`.
        target: a family that nextpnr knows.
        device: FPGA of the family.
        speed: its speed grade.
        package: its package.
        dsp: multiply in DSP blocks; when false, in look-up tables.
        seeds: placements to try, from the seeds 1, 2, ...
        clock_mhz: the clock to reach; without it the placer is asked for the family's usual one.
        bitstream: file to write; the ports of the top are pins then.
        constraints: file with the pins of a board, in the family's own format.
        serial_ports: put the ports behind shift registers of one pin each, to measure a top that
            has more ports than the device has pins.
        rip_up: let the router take up and route anew what misses the clock. Small designs become
            faster; where the clock is far off, the router may find no end.
        progress: called with what goes on.
        entry: where to begin, for a design inside another module; the top.

    Raises:
        SynthesisError: when the folder or the target is wrong, or Yosys fails.
        ToolError: when nextpnr is not installed.
        RoutingError: when the device or the grade is unknown, or the design does not fit.
    """
    family = routable(target)
    part = find_part(family, device, speed, package)
    _check(seeds, clock_mhz, bitstream, constraints, serial_ports)
    if bitstream:
        family.packer(Path("layout"), Path("bitstream"), part)
    check_installed(family)
    wrapper = _wrapper(family, bitstream, constraints, serial_ports)
    say = progress or (lambda what: None)
    instances, interval, latency = _design(project)
    with TemporaryDirectory(prefix="mase_hw_route_") as name:
        scratch = Path(name)
        netlist = Netlist(scratch / NETLIST, wrapper, part)
        synthesis = synthesize(
            project,
            target,
            dsp=dsp,
            netlist=netlist,
            entry=entry,
            progress=lambda step: say(f"synthesizing: {step}"),
        )
        _mend(family, netlist.path)
        options = ["--freq", f"{clock_mhz or family.clock_mhz:g}"]
        options += ["--tmg-ripup"] if rip_up else []
        options += _place_ports(family, part, wrapper, constraints, netlist.path)
        runs = []
        for seed in range(1, seeds + 1):
            layout = family.layout(Path(f"layout{seed}")) if bitstream else []
            timing = place_and_route(
                family,
                part,
                [*options, "--seed", str(seed), *layout],
                scratch,
                partial(_say_of_seed, say, seed, seeds),
            )
            path = critical_path(timing.path, instances, family, wrapped=wrapper is not None)
            used = _used(family, part, timing.used, pins=wrapper != "registered")
            runs.append(Run(seed, timing.fmax_mhz, used, path))
        runs.sort(key=lambda run: run.fmax_mhz)
        report = RouteReport(
            part, tuple(runs), synthesis, interval, latency, clock_mhz, wrapper, note=family.note
        )
        if bitstream and report.is_met:
            say("writing the bitstream")
            _write_bitstream(family, part, report.best.seed, scratch, bitstream)
            report = replace(report, bitstream=bitstream)
    return report


def _used(
    family: RoutableTarget, part: Part, counted: Mapping[str, tuple[int, int]], *, pins: bool
) -> dict[str, tuple[int, int]]:
    """Resources used and available, and pins where ports are pins."""
    used = {ours: counted[cell] for ours, cell in family.resources.items() if cell in counted}
    if pins:
        taken, pads = counted[family.pins]
        known = len(family.pin_names(part)) if family.chooses_pins else 0
        used["pins"] = taken, known or pads
    return used


def routable(target: str) -> RoutableTarget:
    """Return the family of that name.

    Raises:
        SynthesisError: when there is none.
        RoutingError: when nothing on PyPI places and routes it.
    """
    family = find_target(target)
    if not isinstance(family, RoutableTarget):
        known = [name for name, item in targets().items() if isinstance(item, RoutableTarget)]
        raise RoutingError(
            f"{family.title} ({target}) can be synthesized for, but not placed and routed; "
            f"targets of --route: {', '.join(known)}"
        )
    return family


def find_part(
    family: RoutableTarget, device: str | None, speed: str | None, package: str | None
) -> Part:
    """Return the part that is asked for, or the default one.

    Raises:
        RoutingError: when device, grade or package is unknown; the message lists all.
    """
    chosen = device or family.device
    names = {name.lower(): name for name in family.parts}
    if chosen.lower() not in names:
        raise RoutingError(
            f"no device of {family.title} is called {chosen!r}; known: {', '.join(family.parts)}"
        )
    chosen = names[chosen.lower()]
    if speed is not None and speed not in family.speeds:
        known = ", ".join(family.speeds)
        allowed = f"allowed: {known}" if known else "the device implies it, leave it out"
        raise RoutingError(f"speed grade of {family.title} is {speed!r}; {allowed}")
    packages = family.parts[chosen]
    if package is not None and package.upper() not in map(str.upper, packages):
        raise RoutingError(f"package of {chosen} is {package!r}; allowed: {', '.join(packages)}")
    wanted = (package or packages[0]).upper()
    return Part(
        chosen,
        speed or next(iter(family.speeds), ""),
        next(item for item in packages if item.upper() == wanted),
    )


def _check(
    seeds: int,
    clock_mhz: float | None,
    bitstream: Path | None,
    constraints: Path | None,
    serial_ports: bool,
) -> None:
    """Refuse what would fail only after minutes of work."""
    if seeds < 1:
        raise RoutingError(f"the number of seeds is {seeds}; allowed: 1 or more")
    if clock_mhz is not None and not 0 < clock_mhz < float("inf"):
        raise RoutingError(f"the clock is {clock_mhz:g} MHz; allowed: more than 0")
    if constraints is not None:
        if serial_ports:
            raise RoutingError("pins of a board were given, and --serial-ports leaves no ports")
        if not constraints.is_file():
            raise RoutingError(f"{constraints} with the pins of the board does not exist")
    if bitstream is not None:
        check_result(bitstream)


def _wrapper(
    family: RoutableTarget, bitstream: Path | None, constraints: Path | None, serial: bool
) -> Wrapper | None:
    if serial:
        return "serial"
    if constraints or (bitstream and family.chooses_pins):
        return None
    if bitstream:
        raise RoutingError(
            f"nextpnr chooses no pins on {family.title}: give those of a board with --pins FILE, "
            "or --serial-ports to measure"
        )
    return "registered" if family.out_of_context else "serial"


def _place_ports(
    family: RoutableTarget,
    part: Part,
    wrapper: Wrapper | None,
    constraints: Path | None,
    netlist: Path,
) -> list[str]:
    """Return the options of nextpnr that say where ports are, after writing what they name."""
    if wrapper == "registered":
        return ["--out-of-context"]
    if constraints is not None:
        text = constraints.read_text()
    else:
        ports, pins = _port_bits(netlist), family.pin_names(part)
        if not pins:
            return list(family.free_pins)
        if len(ports) > len(pins):
            raise RoutingError(too_large({"pins": (len(ports), len(pins))}, family, part))
        text = "".join(map(family.locate, ports, pins))
    file = netlist.with_name("pins")
    file.write_text(text)
    return [option.format(file.name) for option in family.constraints]


def _port_bits(netlist: Path) -> list[str]:
    """Return the names of all bits of the ports of a netlist's top, the clock first."""
    modules = json.loads(netlist.read_text())["modules"].values()
    (top,) = (module for module in modules if int(module["attributes"].get("top", "0"), 2))
    names = [
        name if len(port["bits"]) == 1 else f"{name}[{bit}]"
        for name, port in top["ports"].items()
        for bit in range(len(port["bits"]))
    ]
    return sorted(names, key=lambda name: name != CLOCK)


def _mend(family: RoutableTarget, path: Path) -> None:
    if type(family).mend is not RoutableTarget.mend:
        netlist = json.loads(path.read_text())
        if family.mend(netlist):
            path.write_text(json.dumps(netlist))


def _design(project: Path) -> tuple[dict[str, Instance], int, int]:
    """Read instances, and predicted interval and latency."""
    try:
        design = json.loads((project / "design.json").read_text())
        instances = {
            entry["name"]: Instance(entry["node"], entry["module"]) for entry in design["instances"]
        }
        predicted = design["predicted"]
        return instances, predicted["interval_cycles"], predicted["latency_cycles"]
    except OSError as error:
        raise RoutingError(
            f"{project} is not a mase-hw project: design.json: {error.strerror}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise RoutingError(
            f"{project / 'design.json'} cannot be read ({type(error).__name__}: {error}); "
            "emit the project again"
        ) from error


def _say_of_seed(say: Progress, seed: int, seeds: int, what: str) -> None:
    say(f"seed {seed} of {seeds}: {what}" if seeds > 1 else what)


def _write_bitstream(
    family: RoutableTarget, part: Part, seed: int, scratch: Path, bitstream: Path
) -> None:
    packed = Path("bitstream")
    pack(family, part, Path(f"layout{seed}"), packed, scratch)
    with result_file(bitstream) as made:
        made.write_bytes((scratch / packed).read_bytes())


def _seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


# Yosys names a cell after a net and the primitive: what is ours ends before `_TRELLIS_FF_Q`.
_PRIMITIVE = re.compile(r"(^|_)[A-Z][A-Z0-9]+(_.*)?$|\$.*$")
PORTS = "(ports)"
GLUE = "(glue)"


@dataclass(frozen=True)
class Instance:
    """The node and the module of an instance of the top."""

    node: str
    module: str


@dataclass(frozen=True)
class Step:
    """Neighbouring cells of one kind on a path.

    Attributes:
        node: graph node, `(glue)` for the top's own logic, `(ports)` for a flip-flop at a port.
        module: SystemVerilog module of the instance; empty where there is none.
        kind: `register`, `logic`, `carry`, `memory`, `multiplier`, ...
        signal: name of the last cell's result below the top.
        cells: how many.
        logic_ns: delay in the cells.
        routing_ns: delay of the wires that lead to them and between them.
    """

    node: str
    module: str
    kind: str
    signal: str
    cells: int
    logic_ns: float
    routing_ns: float

    def to_dict(self) -> dict[str, object]:
        """Return the fields as values of JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class CriticalPath:
    """The slowest path from register to register."""

    steps: tuple[Step, ...]

    @property
    def logic_ns(self) -> float:
        """Delay in cells, in nanoseconds."""
        return sum(step.logic_ns for step in self.steps)

    @property
    def routing_ns(self) -> float:
        """Delay in wires, in nanoseconds."""
        return sum(step.routing_ns for step in self.steps)

    def __str__(self) -> str:
        """Start, cells crossed by kind, and end."""
        first, *between, last = self.steps if len(self.steps) > 1 else self.steps * 2
        counts: Counter[str] = Counter()
        for step in between:
            counts[step.kind] += step.cells
        crossed = ", ".join(f"{kind} x{n}" if n > 1 else kind for kind, n in counts.items())
        places = list(dict.fromkeys(map(_named, self.steps)))
        through = f"{_named(first)}: {first.kind}" if len(places) > 1 else first.kind
        through += f" -> {crossed}" if crossed else ""
        if len(places) == 1:
            return f"{places[0]}: {through} -> {last.kind}"
        inner = [place for place in places if place not in (_named(first), _named(last))]
        through += f" (through {', '.join(inner)})" if inner else ""
        return f"{through} -> {_named(last)}: {last.kind}"

    def to_dict(self) -> dict[str, object]:
        """Return the sums and the steps."""
        return {
            "logic_ns": round(self.logic_ns, 3),
            "routing_ns": round(self.routing_ns, 3),
            "steps": [step.to_dict() for step in self.steps],
        }


def _named(step: Step) -> str:
    return f"{step.node} ({step.module})" if step.module else step.node


def critical_path(
    segments: Sequence[Segment],
    instances: Mapping[str, Instance],
    target: RoutableTarget,
    *,
    wrapped: bool,
) -> CriticalPath:
    """Return a path of nextpnr in the terms of the design.

    Args:
        segments: delays in order.
        instances: of the top, by name.
        target: what says of which kind a cell is.
        wrapped: whether a wrapper stands around the top.
    """
    cells: list[Step] = []
    routing = 0.0
    for index, segment in enumerate(segments):
        if segment.kind in ("routing", "clk-skew"):
            routing += segment.delay_ns
            continue
        if segment.cell.startswith("$") and cells:
            # What nextpnr inserts, to lead a carry out of its chain, belongs to what it follows.
            instance, signal = Instance(cells[-1].node, cells[-1].module), cells[-1].signal
        else:
            instance, signal = _place(segment.cell, instances, wrapped)
        leaving = segments[index + 1].net if index + 1 < len(segments) else ""
        cells.append(
            Step(
                instance.node,
                instance.module,
                target.kind(segment.kind, segment.cell, segment.port),
                _below_top(leaving) or signal,
                1,
                segment.delay_ns,
                routing,
            )
        )
        routing = 0.0
    joined = []
    for _, group in groupby(cells, key=lambda cell: (cell.node, cell.module, cell.kind)):
        same = list(group)
        joined.append(
            Step(
                same[-1].node,
                same[-1].module,
                same[-1].kind,
                same[-1].signal,
                len(same),
                round(sum(cell.logic_ns for cell in same), 3),
                round(sum(cell.routing_ns for cell in same), 3),
            )
        )
    return CriticalPath(tuple(joined))


def _place(cell: str, instances: Mapping[str, Instance], wrapped: bool) -> tuple[Instance, str]:
    """Instance that holds a cell, and the cell's name in it."""
    name = cell.rpartition(f"{INSTANCE}.")[2]
    if wrapped and name == cell:
        return Instance(PORTS, ""), _below_top(cell)
    return instances.get(name.partition(".")[0], Instance(GLUE, "")), _below_top(cell)


def _below_top(name: str) -> str:
    """Return a name of the netlist without the wrapper, and without names of primitives."""
    name = name.rpartition(f"{INSTANCE}.")[2]
    parts = [_PRIMITIVE.sub("", part) for part in name.split(".")]
    return ".".join(part for part in parts if part)
