"""What the recorded designs compute and cost, and how that is compared with what is found now.

`python -m tests.recorded.record [NAME ...] [--field FIELD ...]`, in the checkout's root, records
anew: everything, or these designs, or these fields of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mase_hw.emit.project import Project, load_reference
from mase_hw.hardware.synth import synthesize
from mase_hw.sim.inputs import encode_inputs
from mase_hw.sim.simulate import simulate
from tests.recorded import designs

PATH = Path(__file__).with_name("record.json")
COMMAND = "python -m tests.recorded.record"
FIELDS = ("outputs", "interval", "latency", "multipliers", "paused", "area")
WITHOUT_AREA = FIELDS[:-1]
# Resources that may not grow by more than this; flip-flops may.
AREA_TOLERANCE = 0.03
AREA_HELD = ("lut", "dsp", "bram")
# Of small designs: how many cycles all inferences take with pauses of this seed.
STALL, SEED = 0.5, 1
FAULTS = "wrong elements and broken stream rules"

Entry = Mapping[str, Mapping[str, Any]]


def measure(name: str, fields: Sequence[str] = FIELDS) -> dict[str, dict[str, Any]]:
    """Emit a design and return the fields asked for.

    `outputs` are SHA-256 sums of integer codes: those that the simulated hardware put on each port,
    and those of the integer reference; and the faults of the simulation. `interval` and `latency`
    are cycles of a simulation without pauses beside their predictions; `area` is what Yosys says
    for xcup. `paused`, of small designs, are the cycles of a run with pauses at all ports.
    """
    fields = [field for field in fields if field in fields_of(name)]
    with tempfile.TemporaryDirectory(prefix="mase-hw-record-") as folder:
        project, inputs = designs.emit(name, Path(folder) / "project")
        found: dict[str, dict[str, Any]] = {}
        if {"outputs", "interval", "latency"} & set(fields):
            found |= _simulated(project, inputs)
        found["multipliers"] = {"total": sum(node.multipliers for node in project.design.nodes)}
        if "paused" in fields:
            report = simulate(project.folder, inputs, stall=STALL, seed=SEED)
            faults = report.mismatches + len(report.violations)
            found["paused"] = {"cycles": report.cycles, FAULTS: faults}
        if "area" in fields:
            total = synthesize(project.folder, "xcup").total
            found["area"] = {kind: getattr(total, kind) for kind in ("lut", "ff", "dsp", "bram")}
    return {field: found[field] for field in fields}


def fields_of(name: str) -> tuple[str, ...]:
    return tuple(field for field in FIELDS if field != "paused" or name in designs.SMALL)


def _simulated(project: Project, inputs: Tensor) -> dict[str, dict[str, Any]]:
    report = simulate(project.folder, inputs)
    codes = load_reference(project.folder)(encode_inputs(project.design.inputs, inputs))
    outputs: dict[str, Any] = {FAULTS: report.mismatches + len(report.violations)}
    for stream in project.design.outputs:
        outputs[f"{stream.name} of the RTL"] = digest(report.outputs[stream.name])
        outputs[f"{stream.name} of the reference"] = digest(codes[stream.node])
    return {
        "outputs": outputs,
        "interval": {
            "predicted": report.predicted_interval_cycles,
            "simulated": report.interval_cycles,
        },
        "latency": {
            "predicted": report.predicted_latency_cycles,
            "simulated": report.latency_cycles,
        },
    }


def digest(codes: Tensor) -> str:
    """Return the SHA-256 sum of codes as little-endian 64-bit integers."""
    return hashlib.sha256(codes.contiguous().numpy().astype("<i8").tobytes()).hexdigest()


def load() -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(PATH.read_text())
    return found


def differences(name: str, recorded: Entry, found: Entry) -> list[str]:
    lines = []
    for field, figures in found.items():
        before = recorded.get(field, {})
        for figure in [*before, *(figure for figure in figures if figure not in before)]:
            pair = (before.get(figure, "nothing"), figures.get(figure, "nothing"))
            problem = _problem(field, figure, *pair)
            if problem:
                lines.append(
                    f"{name}, {field}, {figure}: recorded {pair[0]}, found {pair[1]}: {problem}"
                )
        if field == "latency":
            lines += _inexact(name, before, figures)
    return lines


def _problem(field: str, figure: str, recorded: Any, found: Any) -> str | None:
    if field != "area" or "nothing" in (recorded, found):
        return None if found == recorded else "must be equal"
    if figure in AREA_HELD and found > recorded * (1 + AREA_TOLERANCE):
        return f"may grow by {AREA_TOLERANCE:.0%} at most"
    return None


def _inexact(name: str, recorded: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line when a latency is predicted less exactly than when it was recorded."""
    miss = abs(found["predicted"] - found["simulated"])
    allowed = abs(recorded["predicted"] - recorded["simulated"]) if recorded else 0
    if miss > allowed:
        yield (
            f"{name}, latency: predicted {found['predicted']}, simulated {found['simulated']}: "
            f"may miss by {allowed} cycles at most"
        )


def refused(name: str, recorded: Entry, found: Entry) -> str | None:
    faults = sum(found.get(field, {}).get(FAULTS, 0) for field in ("outputs", "paused"))
    if faults:
        return f"{name} is not recorded: {faults} {FAULTS}"
    before = recorded.get("latency", {})
    worse = list(_inexact(name, before, found["latency"])) if before and "latency" in found else []
    return f"{worse[0]}; not recorded" if worse else None


def explain(name: str, lines: Sequence[str]) -> str:
    return "\n".join([*lines, f"to record anew on purpose: {COMMAND} {name} [--field FIELD ...]"])


def write(name: str, found: Entry) -> None:
    """Put the fields of one design in the record, in the order of the designs."""
    record: dict[str, dict[str, Any]] = load() if PATH.is_file() else {}
    entry = {**record.get(name, {}), **found}
    record[name] = {field: entry[field] for field in FIELDS if field in entry}
    ordered = {known: record[known] for known in designs.names() if known in record}
    PATH.write_text(json.dumps(ordered, indent=2) + "\n")


def main(arguments: Sequence[str], say: Callable[[str], object] = sys.stdout.write) -> None:
    """Record anew."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(designs.names()))
    parser.add_argument("--field", action="append", choices=FIELDS, help="all without")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.names) - set(designs.names()))
    if unknown:
        parser.error(f"no design is called {unknown[0]}; there are {', '.join(designs.names())}")
    torch.set_num_threads(1)
    fields = [field for field in FIELDS if field in (chosen.field or FIELDS)]
    for name in chosen.names or designs.names():
        designs.keep_weights(name)
        found = measure(name, fields)
        before = load().get(name, {}) if PATH.is_file() else {}
        refusal = refused(name, before, found)
        if refusal:
            parser.error(refusal)
        write(name, found)
        known = {field: figures for field, figures in found.items() if field in before}
        changes = differences(name, before, known)
        say("".join(f"{line}\n" for line in [f"{name}: recorded", *changes]))


if __name__ == "__main__":
    main(sys.argv[1:])
