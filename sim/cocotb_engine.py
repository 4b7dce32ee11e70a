"""The cocotb engine: runs the project's testbench in the Verilator model, and reads its results."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from mase_hw._kinds import Record
from mase_hw._resources import sim_folder
from mase_hw.emit.design import DesignSummary
from mase_hw.errors import ToolError
from mase_hw.sim import engine
from mase_hw.sim._process import died, run_simulator, waiting
from mase_hw.sim.build import build_model
from mase_hw.sim.checks import ERROR_LIMIT, broken_rules
from mase_hw.sim.layout import Bytes, StreamLayout
from mase_hw.sim.memory import MemoryState
from mase_hw.sim.native_engine import keep_waveform

TESTBENCH_FILES = ("memory.py", "stream.py", "test_top.py", "run.py")


def run_cocotb(request: engine.RunRequest) -> engine.RunResult:
    """Run a request with the cocotb engine."""
    with waiting("Building the simulation"):
        model = build_model(
            request.project, request.summary, probes=request.probes, waves=request.waves,
            checks=request.checks,
        )  # fmt: skip
        executable = model.executable("cocotb")
    with tempfile.TemporaryDirectory(prefix="mase-hw-") as name:
        folder = Path(name)
        expected = request.expected or _nothing(request)
        np.savez(folder / "vectors.npz", **_vectors(request.summary, request.inputs, expected))
        command = [
            str(executable),
            f"+verilator+seed+{request.seed + 1}",
            "+verilator+rand+reset+2",
            f"+verilator+error+limit+{ERROR_LIMIT}",
        ]
        if request.waves:
            command += ["--trace", "--trace-file", str(folder / "waves.vcd")]
        total = request.inferences * request.summary.outputs[0].spec.beats
        environment = _environment(request, folder)
        status, lines = run_simulator(command, request.project, environment, total)
        if not (folder / "results.npz").is_file():
            raise died("cocotb", status, lines)
        result = _read_results(request, folder)
        inside = broken_rules(lines, request.summary)
        return replace(result, violations=result.violations + inside)


def write_testbench(
    folder: Path,
    summary: DesignSummary,
    inputs: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
) -> None:
    """Write the testbench and its vectors into `folder/sim`.

    Args:
        folder: the project.
        summary: its streams.
        inputs: codes `[inferences, *shape]` of each input, by stream name.
        expected: codes of each output, by stream name.
    """
    target = folder / "sim"
    target.mkdir(parents=True, exist_ok=True)
    for name in TESTBENCH_FILES:
        (target / name).write_text((sim_folder() / "testbench" / name).read_text())
    beats = tuple(StreamLayout(item).pack(inputs[item.name]) for item in summary.inputs)
    wanted = {item.name: StreamLayout(item).pack(expected[item.name]) for item in summary.outputs}
    with (target / "vectors.npz").open("wb") as file:
        np.savez(file, **_vectors(summary, beats, wanted))


def _vectors(
    summary: DesignSummary, inputs: tuple[Bytes, ...], expected: Mapping[str, Bytes]
) -> Record:
    arrays = {
        f"input.{item.name}": beats for item, beats in zip(summary.inputs, inputs, strict=True)
    }
    arrays |= {f"expected.{name}": beats for name, beats in expected.items()}
    return arrays | {f"mask.{item.name}": StreamLayout(item).mask() for item in summary.outputs}


def _nothing(request: engine.RunRequest) -> dict[str, Bytes]:
    """Return expectations for a run whose outputs only the caller checks."""
    return {
        item.name: np.zeros((0, StreamLayout(item).bytes), np.uint8)
        for item in request.summary.outputs
    }


def _environment(request: engine.RunRequest, folder: Path) -> dict[str, str]:
    import find_libpython
    from cocotb_tools import config

    library = find_libpython.find_libpython()
    if library is None:
        raise ToolError(
            f"cocotb needs the shared library of {sys.executable}, which was not found; install "
            "it with: apt-get install libpython3-dev"
        )
    testbench = sim_folder() / "testbench"
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(testbench), *(item for item in sys.path if item)]),
        "PYGPI_PYTHON_BIN": sys.executable,
        "LIBPYTHON_LOC": library,
        "GPI_USERS": f"{library};{config.pygpi_entry_point()}",
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_TOPLEVEL": "top",
        "COCOTB_TEST_MODULES": "test_top",
        "COCOTB_RESULTS_FILE": str(folder / "results.xml"),
        "COCOTB_TRUST_INERTIAL_WRITES": "1",
        "COCOTB_ANSI_OUTPUT": "0",
        "COCOTB_RANDOM_SEED": str(request.seed),
        "MASE_HW_PROJECT": str(request.project),
        "MASE_HW_VECTORS": str(folder / "vectors.npz"),
        "MASE_HW_RESULTS": str(folder / "results.npz"),
        "MASE_HW_STALL": str(request.stall),
        "MASE_HW_STALLED": request.stalled,
        "MASE_HW_SEED": str(request.seed),
        "MASE_HW_PROBES": ",".join(stream.name for stream in request.probes),
        "MASE_HW_RESETS": ",".join(map(str, request.resets)),
        "MASE_HW_RESET_MEMORY": str(int(request.reset_memory)),
        "MASE_HW_MEMORY": json.dumps(asdict(request.memory) if request.memory else {}),
    }


def _read_results(request: engine.RunRequest, folder: Path) -> engine.RunResult:
    with np.load(folder / "results.npz") as arrays:
        summary = json.loads(str(arrays["summary"]))
        streams = {
            name: engine.split_runs(
                engine.Recording(arrays[f"beats.{name}"], arrays[f"cycles.{name}"], valid, ready),
                arrays[f"marks.{name}"],
            )
            for name, (valid, ready) in summary["state"].items()
        }
    violations = tuple(engine.Violation(**item) for item in summary["violations"])
    waveform = keep_waveform(request, folder / "waves.vcd")
    return engine.RunResult(
        summary["cycles"],
        summary["seconds"],
        summary["hung"],
        {name: runs[-1] for name, runs in streams.items()},
        violations,
        waveform,
        MemoryState(*summary["memory"]) if summary["memory"] else None,
        engine.runs_before(streams),
    )
