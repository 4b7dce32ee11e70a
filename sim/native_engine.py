"""The native engine: the compiled harness around the Verilator model streams a whole data set."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np

from mase_hw._results import result_file
from mase_hw.emit.design import Stream
from mase_hw.errors import SimulationError
from mase_hw.sim._process import died, run_simulator, waiting
from mase_hw.sim.build import build_model
from mase_hw.sim.checks import broken_rules
from mase_hw.sim.engine import Recording, RunRequest, RunResult, Violation, runs_before, split_runs
from mase_hw.sim.layout import Bytes, Integers, StreamLayout
from mase_hw.sim.memory import MemoryState

# Compiling a simulation of fewer cycles so that it is fast takes longer than they do.
SHORT_CYCLES = 20_000
# In a project.
WAVES = Path("sim", "waves.vcd")


def run_native(request: RunRequest) -> RunResult:
    """Run a request with the native engine."""
    with waiting("Building the simulation"):
        model = build_model(
            request.project, request.summary, probes=request.probes, waves=request.waves,
            checks=request.checks,
        )  # fmt: skip
        executable = model.executable("native", short=request.cycles < SHORT_CYCLES)
    with tempfile.TemporaryDirectory(prefix="mase-hw-") as name:
        folder = Path(name)
        _write_job(request, folder)
        total = request.inferences * request.summary.outputs[0].spec.beats * request.repeats
        command = [str(executable), str(folder)]
        status, lines = run_simulator(command, request.project, os.environ, total)
        if status or not (folder / "result.txt").is_file():
            raise died("native", status, lines)
        result = _read_result(request, folder)
        inside = broken_rules(lines, request.summary)
        return replace(result, violations=result.violations + inside)


def write_inputs(folder: Path, streams: Sequence[Stream], inputs: Sequence[Bytes]) -> None:
    """Write `NAME.in` for each input."""
    for stream, beats in zip(streams, inputs, strict=True):
        (folder / f"{stream.name}.in").write_bytes(np.ascontiguousarray(beats).tobytes())


def _write_job(request: RunRequest, folder: Path) -> None:
    summary = request.summary
    write_inputs(folder, summary.inputs, request.inputs)
    numbers: list[object] = [
        request.inferences, request.seed, request.input_stall, request.output_stall,
        request.longest_pause, request.quiet_limit, request.drain, int(request.waves),
        request.repeats, int(request.reset_memory), len(request.resets), *request.resets,
    ]  # fmt: skip
    if request.repeats > 1:
        for stream in (*summary.outputs, *request.probes):
            (folder / f"{stream.name}.mask").write_bytes(StreamLayout(stream).mask().tobytes())
    streams = (*summary.inputs, *summary.outputs, *request.probes)
    numbers += [stream.spec.beats for stream in streams]
    (folder / "job.txt").write_text(" ".join(map(str, numbers)) + "\n")
    if request.memory is not None and summary.external is not None:
        options = [*astuple(request.memory), summary.external.port.outstanding]
        image = request.project / summary.external.file
        (folder / "memory.txt").write_text(" ".join(map(str, options)) + f"\n{image}\n")


def _read_result(request: RunRequest, folder: Path) -> RunResult:
    layouts = {
        stream.name: StreamLayout(stream)
        for stream in (*request.summary.inputs, *request.summary.outputs, *request.probes)
    }
    numbers: dict[str, float] = {}
    streams: dict[str, list[Recording]] = {}
    violations: list[Violation] = []
    memory = None
    for line in (folder / "result.txt").read_text().splitlines():
        kind, *words = line.split(" ")
        if kind == "violation":
            violations.append(
                Violation(words[0], " ".join(words[3:]), int(words[1]), int(words[2]))
            )
        elif kind == "input":
            # A driver does not see ready after its last beat: blocked while it still offers one.
            empty = np.zeros((0, layouts[words[0]].bytes), np.uint8)
            cycles = _read_integers(folder, words[0], "cycles")
            recording = Recording(empty, cycles, words[2] == "1", False)
            marks = _read_integers(folder, words[0], "marks")
            streams[words[0]] = split_runs(recording, marks)
        elif kind == "memory":
            bursts, moved, waiting, asking = map(int, words)
            memory = MemoryState(bursts, moved, waiting, bool(asking))
        elif kind in ("output", "probe"):
            name = words[0]
            beats = np.fromfile(folder / f"{name}.out", np.uint8).reshape(-1, layouts[name].bytes)
            cycles = _read_integers(folder, name, "cycles")
            recording = Recording(beats, cycles, words[2] == "1", words[3] == "1")
            streams[name] = split_runs(recording, _read_integers(folder, name, "marks"))
        else:
            numbers[kind] = float(words[0])
    waveform = keep_waveform(request, folder / "waves.vcd")
    return RunResult(
        int(numbers["cycles"]),
        numbers["seconds"],
        bool(numbers["hung"]),
        {name: runs[-1] for name, runs in streams.items()},
        tuple(violations),
        waveform,
        memory,
        runs_before(streams),
        int(numbers["peak"]),
    )


def _read_integers(folder: Path, name: str, what: str) -> Integers:
    return np.fromfile(folder / f"{name}.{what}", "<u8").astype(np.int64)


def keep_waveform(request: RunRequest, recorded: Path) -> Path | None:
    """Move a recorded waveform to `sim/waves.vcd` of the project."""
    if not request.waves:
        return None
    if not recorded.is_file():
        raise SimulationError(f"no waveform was written to {recorded}")
    target = request.project / WAVES
    with result_file(target) as whole:
        shutil.move(recorded, whole)
    return target
