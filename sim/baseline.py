"""The speed of a hand-written C++ loop over the same Verilator model, checked for correctness."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from mase_hw.emit.design import DesignSummary
from mase_hw.errors import SimulationError
from mase_hw.sim._process import died, run_simulator
from mase_hw.sim.build import build_model
from mase_hw.sim.checker import check_stream
from mase_hw.sim.engine import Recording
from mase_hw.sim.inputs import random_codes
from mase_hw.sim.layout import StreamLayout
from mase_hw.sim.simulate import Reference, load_reference, make_request


def baseline_cycles_per_second(
    project: Path, samples: int, *, seed: int = 0, reference: Reference | None = None
) -> float:
    """Return the clock cycles per second of the plain loop, once its outputs proved right.

    Args:
        project: an emitted folder with one input, one output and one payload signal each.
        samples: random inferences to stream.
        seed: seeds them.
        reference: the integer reference; by default rebuilt from the project's saved graph.

    Raises:
        SimulationError: for another kind of design, and when an output is wrong.
    """
    summary = DesignSummary.load(project)
    if summary.external is not None:
        raise SimulationError("the plain loop has no memory; this design reads an external one")
    ports = (*summary.inputs, *summary.outputs)
    if [stream.name for stream in ports] != ["data_in_0", "data_out_0"] or any(
        len(stream.fields) > 1 for stream in ports
    ):
        raise SimulationError(
            "the plain loop drives data_in_0 and data_out_0 of one signal each; this design has "
            + ", ".join(stream.name for stream in ports)
        )
    model = reference if reference is not None else load_reference(project)
    codes = random_codes(summary.inputs, samples, seed)
    stream = summary.outputs[0]
    expected = model(codes, [stream.node])[stream.node].reshape(samples, *stream.spec.shape)
    request = make_request(project, summary, codes, {stream.name: expected}, seed)
    executable = build_model(request.project, summary).executable("baseline")
    with tempfile.TemporaryDirectory(prefix="mase-hw-") as name:
        folder = Path(name)
        (folder / "in.bin").write_bytes(request.inputs[0].tobytes())
        total = samples * stream.spec.beats
        command = [str(executable), str(folder), str(len(request.inputs[0])), str(total)]
        status, lines = run_simulator(command, request.project, os.environ, total)
        if status or not lines:
            raise died("baseline", status, lines)
        beats = np.fromfile(folder / "out.bin", np.uint8).reshape(-1, StreamLayout(stream).bytes)
    recording = Recording(beats, np.zeros(len(beats), np.int64), False, True)
    check = check_stream(stream, expected, recording, seed=seed)
    if check.mismatches:
        raise SimulationError(f"the plain loop gave wrong outputs: {check.first}")
    cycles, seconds = lines[-1].split()
    return int(cycles) / float(seconds)
