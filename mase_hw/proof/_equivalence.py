"""Whether two emitted designs of the same ports do the same in every cycle, for all times.

Both are driven by the same producers, consumers and memory, which keep the rules of their ports and
otherwise do as they like. Registers without a reset start with any content, in both designs with
the same where they have the same name. A proof is by induction: ABC searches which signals of both
are always equal (`scorr`), and clauses for the rest (`pdr`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from mase_hw._processes import tool_group
from mase_hw._resources import template_environment
from mase_hw.emit.design import DesignSummary, Stream
from mase_hw.errors import ProofError
from mase_hw.proof._network import FALSE, TRUE, Network
from mase_hw.proof._solver import Verdict, failure, outcome, solver
from mase_hw.proof._transition import Transition

CLOSED = "closed"
MOST_CYCLES = 150
REDUCED = "reduced.aig"
SEQUENTIAL = f"scorr; write_aiger {REDUCED}; pdr"
WORKER = Path(__file__).with_name("_machines.py")


@dataclass(frozen=True)
class _Port:
    name: str
    width_bits: int
    signals: tuple[tuple[str, int, int], ...]

    @classmethod
    def of(cls, stream: Stream) -> _Port:
        signals, low = [], 0
        for field in stream.fields:
            bits = field.lanes * field.width_bits
            signals.append((stream.name + field.suffix, low, bits))
            low += bits
        return cls(stream.name, low, tuple(signals))


@dataclass(frozen=True)
class Machine:
    """A design as a circuit: one cycle, and the names of its literals.

    Attributes:
        step: one cycle.
        inputs: name and bit of each input.
        registers: name and bit of each register.
        outputs: name and bit of each output.
    """

    step: Transition
    inputs: tuple[str, ...]
    registers: tuple[str, ...]
    outputs: tuple[str, ...]


class Machines:
    """An emitted design as circuits, and the instances of a module in it.

    Circuits are made when they are asked for: those of small modules take seconds, that of a whole
    design may take minutes.

    Args:
        project: the folder; memory images are read there.
        summary: its `design.json`.
        sources: paths in the folder, packages first.
        inside: name of the module; none for the whole alone.
    """

    def __init__(
        self, project: Path, summary: DesignSummary, sources: Sequence[str], inside: str = ""
    ) -> None:
        self._project, self._summary = project, summary
        self._sources, self._inside = sources, inside

    @cached_property
    def own(self) -> Mapping[str, Machine]:
        """The instances of the module, by place."""
        return self._made("own") if self._inside else {}

    @cached_property
    def around(self) -> Mapping[str, Machine]:
        """What is around them, by place; the whole design under no name."""
        return self._made("around")

    def _made(self, level: str) -> Mapping[str, Machine]:
        solver()
        with TemporaryDirectory(prefix="mase_hw_proof_") as scratch:
            folder = Path(scratch)
            (folder / f"{CLOSED}.sv").write_text(_closed(self._summary))
            files = [*self._sources, str(folder / f"{CLOSED}.sv")]
            command = [sys.executable, "-P", str(WORKER), str(folder), CLOSED, self._inside, level]
            done = subprocess.run(
                [*command, *files], cwd=self._project, capture_output=True, text=True,
                errors="replace", check=False, process_group=tool_group(),
            )  # fmt: skip
            if done.returncode or not (folder / "names.json").is_file():
                text = done.stdout + done.stderr
                raise ProofError(f"Yosys cannot read the design: {failure(text)}")
            listed = json.loads((folder / "names.json").read_text())
            return {name: _read(folder, place) for place, name in enumerate(listed["names"])}


def _read(folder: Path, number: int) -> Machine:
    names: dict[str, dict[int, str]] = {"input": {}, "latch": {}, "output": {}}
    for line in (folder / f"{number}.map").read_text().splitlines():
        kind, place, bit, name = line.split(maxsplit=3)
        if kind in names:
            names[kind][int(place)] = f"{name}[{bit}]"
    step = Transition.read(folder / f"{number}.aig")
    counts = (step.inputs, len(step.latches), len(step.outputs))
    return Machine(
        step,
        *(
            tuple(names[kind].get(place, f"{kind} {place}") for place in range(count))
            for kind, count in zip(names, counts, strict=True)
        ),
    )


def equivalent(
    left: Machines, right: Machines, limit_seconds: float, *, whole: bool = True
) -> Verdict:
    """True if two designs show the same at all ports in every cycle.

    They are the same where all places of the module that they differ in are: by itself, or with
    what is around it.

    Args:
        left: a design, with the instances of a module.
        right: another one, which differs in that module alone.
        limit_seconds: for each search.
        whole: whether to look around the module, too.

    Returns:
        `proved`; `refuted`, and after how many cycles they differ; or `bounded`.

    Raises:
        ProofError: when Yosys refuses the sources.
        ToolError: when the tools are missing.
    """
    start = monotonic()
    overall = None
    verdicts: dict[tuple[Machine, Machine], Verdict | None] = {}

    def compare(one: Mapping[str, Machine], other: Mapping[str, Machine], place: str) -> int:
        """Return 0 for one circuit, 1 for circuits that are proved to be equal, else 2."""
        if place not in other:
            return 2
        pair = one[place], other[place]
        if pair not in verdicts:
            verdicts[pair] = _compare(*pair, SEQUENTIAL, limit_seconds)
        verdict = verdicts[pair]
        return min(verdict.depth, 1) if verdict and verdict.status == "proved" else 2

    ends = {place: compare(left.own, right.own, place) for place in left.own}
    if ends.keys() != right.own.keys():
        ends = dict.fromkeys(left.own, 2)
    if ends and max(ends.values()) < 2:
        overall = Verdict("proved", max(ends.values()))
    if overall is None and whole:
        for place in (place for place, end in ends.items() if end == 2):
            larger = sorted(
                (item for item in left.around if item.count(".") > 1
                 and place.startswith(f"{item}.")), key=len, reverse=True,
            )  # fmt: skip
            if not any(compare(left.around, right.around, item) < 2 for item in larger):
                break
        else:
            overall = Verdict("proved", 1) if ends else None
        # What differs at a port differs soon; else what is equal inside helps.
        both = left.around[""], right.around[""]
        for command in (f"bmc3 -F {MOST_CYCLES}", SEQUENTIAL):
            overall = overall or _compare(*both, command, limit_seconds)
    return replace(overall or Verdict("bounded", 0), seconds=monotonic() - start)


def _compare(left: Machine, right: Machine, command: str, limit_seconds: float) -> Verdict | None:
    """ABC's verdict on two machines with the same ports; None where it came to no end."""
    if left == right:
        return Verdict("proved", 0)
    if set(left.inputs) != set(right.inputs) or set(left.outputs) != set(right.outputs):
        return None
    with TemporaryDirectory(prefix="mase_hw_proof_") as scratch:
        (Path(scratch) / "both.aig").write_bytes(_both(left, right))
        script = f"read_aiger both.aig; strash; {command} -T {max(1, round(limit_seconds))}"
        text = _abc(Path(scratch), script, 2 * limit_seconds + 5)
        reduced = Path(scratch, REDUCED)
        # Nothing is left to prove of an output that is constant; ABC calls that undecided.
        if reduced.is_file() and Transition.read(reduced).outputs == (FALSE,):
            return Verdict("proved", 1)
        return outcome(text)


def _abc(folder: Path, script: str, limit_seconds: float) -> str:
    try:
        done = subprocess.run(
            [str(solver()), "-c", script], cwd=folder, capture_output=True, text=True,
            errors="replace", check=False, timeout=limit_seconds, process_group=tool_group(),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ""
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


def _both(left: Machine, right: Machine) -> bytes:
    """Return a circuit whose output says that two designs show different things."""
    network = Network()
    shared = {
        name: network.input()
        for name in dict.fromkeys(
            (*left.inputs, *(f"first {name}" for name in (*left.registers, *right.registers)))
        )
    }
    started = network.input()
    # Of an instance; the whole has its own. A reset of one cycle.
    shared["rst[0]"] = started ^ 1
    following = {started: TRUE}
    shown: list[dict[str, int]] = []
    for item in (left, right):
        step = item.step
        frame = [FALSE, *(shared[name] for name in item.inputs)]
        own = []
        for name, (_, first) in zip(item.registers, step.latches, strict=True):
            own.append(register := network.input())
            begin = shared[f"first {name}"] if first is None else first
            frame.append(
                network.any([network.both(started, register), network.both(started ^ 1, begin)])
            )
        for one, two in step.gates:
            frame.append(network.both(frame[one >> 1] ^ (one & 1), frame[two >> 1] ^ (two & 1)))
        for register, (next_, _) in zip(own, step.latches, strict=True):
            following[register] = frame[next_ >> 1] ^ (next_ & 1)
        shown.append(
            {
                name: frame[literal >> 1] ^ (literal & 1)
                for name, literal in zip(item.outputs, step.outputs, strict=True)
            }
        )
    differs = network.any([network.differ(shown[0][name], shown[1][name]) for name in shown[0]])
    return network.text([differs], following)


def _closed(summary: DesignSummary) -> str:
    environment = template_environment()
    memory = summary.external
    depth = memory.port.outstanding + 1 if memory else 0
    return environment.get_template("proof/closed.sv.j2").render(
        name=CLOSED,
        top="top",
        inputs=[_Port.of(stream) for stream in summary.inputs],
        outputs=[_Port.of(stream) for stream in summary.outputs],
        memory=memory.port if memory else None,
        id_width=memory.id_width if memory else 0,
        depth=depth,
        level_bits=depth.bit_length() + 1,
    )
