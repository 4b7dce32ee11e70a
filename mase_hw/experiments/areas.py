"""Bits, look-up tables and accuracy of every format that has hardware."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from mase_hw._kinds import Record, Table
from mase_hw.api import emit_verilog, simulate
from mase_hw.emit.flow import quantize
from mase_hw.errors import SimulationError
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import MARKERS, label, logarithmic, new_figure
from mase_hw.experiments._subject import Subject, steps
from mase_hw.hardware.synth import synthesize
from mase_hw.passes.formats.report_quantization import storage
from mase_hw.training import standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mase_hw.emit.project import Project

STALL = 0.3
SEED = 0
LANES = 8
SIZE, RESULTS = 64, 16
WIDTHS = (4, 6, 8)
BLOCKS = {"data_in_block_size": LANES, "weight_block_size": LANES}
EXPONENTS = {"data_in_exponent_width": 2, "weight_exponent_width": 2}
FOUR = {"data_in_width": 4, "weight_width": 4}
# Formats with a width of data and weights, and what else they are given.
WIDE: Mapping[str, Mapping[str, object]] = {
    "fixed": {},
    "scaled_integer": {},
    "minifloat_denorm": EXPONENTS,
    "mxint": BLOCKS,
    "block_fp": BLOCKS,
    "block_minifloat": {**BLOCKS, **EXPONENTS},
}
# Formats of one width.
ONE: Mapping[str, Mapping[str, object]] = {
    "fp4_e2m1": {},
    "fp6_e2m3": {},
    "fp6_e3m2": {},
    "fp8_e4m3": {},
    "mxfp4": BLOCKS,
    "mxfp6": BLOCKS,
    "mxfp8": BLOCKS,
    "log": FOUR,
    "block_log": {**FOUR, **BLOCKS},
    "ternary": {"data_in_scale": 1.0, "weight_scale": 0.25},
    "binary": {"data_in_bipolar": False, "weight_bipolar": True},
}


def designs() -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield names of formats, a width behind those that have several, and their entries."""
    for name, entry in WIDE.items():
        for width in WIDTHS:
            widths = {"data_in_width": width, "weight_width": width}
            yield f"{name} {width}", {"name": name, **widths, **entry}
    for name, entry in ONE.items():
        yield name, {"name": name, **entry}


def dot_product(entry: Mapping[str, object], folder: Path) -> Project:
    """Emit a layer without bias, and check its bits.

    Raises:
        SimulationError: when they are wrong.
    """
    layer = nn.Linear(SIZE, RESULTS, bias=False)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(SEED)
        # Weights of a size that formats without a scale hold.
        layer.weight.normal_()
        values = torch.randn(1, SIZE)
    project = emit_verilog(
        layer,
        (values,),
        output=folder,
        config={"by": "type", "default": {"config": dict(entry)}},
        parallelism={"default": 1, "linear": {"data_in_0_dim_0": LANES, "data_out_0_dim_0": 1}},
    )
    report = simulate(project, samples=20, stall=STALL)
    if not report.bit_exact:
        raise SimulationError(f"no area without a bit-exact design: {report.first_mismatch}")
    return project


MODEL = "digits-mlp"

# Format, bits per weight, LUT, LUT beside DSP, DSP, accuracy in percent.
Area = tuple[str, float, int, int, int, float]


class Areas(Experiment):
    """A dot product of 8 lanes in look-up tables, beside the accuracy of the format."""

    name = "areas"
    title = "bits against LUT of an 8-lane dot product against accuracy"
    settings: ClassVar[Table] = {"formats": [name for name, _ in designs()], "epochs": 10}
    quick: ClassVar[Table] = {"formats": ["fixed 8", "mxint 8", "fp8_e4m3", "binary"]}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        subject = Subject.load(MODEL, seed=self.seed)
        chosen = {name: entry for name, entry in designs() if name in size["formats"]}
        advance = steps(progress, len(chosen))
        rows: list[Area] = []
        for name, entry in chosen.items():
            with tempfile.TemporaryDirectory(prefix="mase-hw-areas-") as scratch:
                project = dot_product(entry, Path(scratch) / "dot")
                without = synthesize(project.folder, dsp=False).total
                with_dsp = synthesize(project.folder).total
            bits, accuracy = trained(subject, entry, size["epochs"])
            rows.append((name, bits, without.lut, with_dsp.lut, int(with_dsp.dsp), 100 * accuracy))
            advance()
        count = len(subject.split.test_labels)
        error = 100 * standard_error(max(row[-1] for row in rows) / 100, count)
        figure = draw(rows, f"{MODEL}, {count} test samples")
        note = (
            f"linear 64-16 with one unit of 8 lanes, every output bit checked, Yosys xcup; "
            f"{MODEL} with linear layers in the format, trained in it, "
            f"{count} test samples, standard error {error:.1f} points"
        )
        columns = ("format", "bits per weight", "LUT", "LUT beside DSP", "DSP", "accuracy, %")
        return Outcome(columns, rows, figure, note)


def draw(rows: Sequence[Area], task: str) -> Figure:
    """Draw LUT over bits, and accuracy over LUT; formats of one kind are joined."""
    kinds: dict[str, list[Area]] = {}
    for row in rows:
        kinds.setdefault(_kind(row[0]), []).append(row)
    figure, (left, right) = new_figure(2)
    for index, (kind, own) in enumerate(kinds.items()):
        own.sort(key=lambda row: row[1:3])
        style: Record = {
            "marker": MARKERS[index % len(MARKERS)],
            "color": f"C{index}" if index < 9 else ("black", "navy", "gold")[index % 3],
            # Later kinds are smaller, so that one on top of another shows.
            "markersize": 9 - 0.5 * index,
            "lw": 1,
            "label": kind,
        }
        left.plot([row[1] for row in own], [row[2] for row in own], **style)
        right.plot([row[2] for row in own], [row[-1] for row in own], **style)
    logarithmic(left.yaxis)
    logarithmic(right.xaxis)
    label(left, "8-lane dot product, no DSP", "bits per weight", "LUT")
    label(right, task, "LUT", "accuracy, %")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _kind(name: str) -> str:
    """Family of formats of several widths: `mxfp` of `mxfp8`, `fp` of `fp8_e4m3`."""
    family = name.partition(" ")[0]
    return re.split(r"\d", family)[0].rstrip("_")


def trained(subject: Subject, entry: Mapping[str, object], epochs: int) -> tuple[float, float]:
    """Return bits per weight, and the accuracy with linear layers in a format."""
    config = {
        "by": "type",
        "default": {"config": {"name": None}},
        "linear": {"config": {**entry, "bias_name": "fixed", "bias_width": 8}},
    }
    mg = quantize(subject.mg, config, data=[subject.split.train_inputs[:256]])
    subject.fit(mg, epochs=epochs, learning_rate=1e-3)
    return storage(mg)["average_weight_bits"], subject.accuracy(mg)
