"""Bits, look-up tables and accuracy of every format that has hardware."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from mase_hw.emit.flow import quantize
from mase_hw.experiments._areas import designs, dot_product
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import MARKERS, label, new_figure
from mase_hw.experiments._subject import Subject, steps
from mase_hw.graph.quantized import QuantizedModel
from mase_hw.hardware.synth import synthesize
from mase_hw.passes.report_quantization import storage
from mase_hw.training import Trainer, evaluate, standard_error

MODEL = "digits-mlp"
TRAINER = Trainer(epochs=10, learning_rate=1e-3)
QUICK = ("fixed 8", "mxint 8", "fp8_e4m3", "binary")


class Areas(Experiment):
    """A dot product of 8 lanes in look-up tables, beside the accuracy of the format."""

    name: ClassVar[str] = "areas"
    title: ClassVar[str] = "bits against LUT of an 8-lane dot product against accuracy"

    def run(self, folder: Path, *, quick: bool, progress: Progress) -> Outcome:
        """Run it."""
        subject = Subject.load(MODEL)
        chosen = {name: entry for name, entry in designs() if not quick or name in QUICK}
        advance = steps(progress, len(chosen))
        rows: list[tuple[str, float, int, int, int, float]] = []
        for name, entry in chosen.items():
            with tempfile.TemporaryDirectory(prefix="mase-hw-areas-") as scratch:
                project = dot_product(entry, Path(scratch) / "dot")
                without = synthesize(project.folder, dsp=False).total
                with_dsp = synthesize(project.folder).total
            bits, accuracy = trained(subject, entry)
            rows.append((name, bits, without.lut, with_dsp.lut, int(with_dsp.dsp), 100 * accuracy))
            advance()
        count = len(subject.split.test_labels)
        error = 100 * standard_error(max(row[-1] for row in rows) / 100, count)
        figure, (left, right) = new_figure(2)
        for index, family in enumerate(dict.fromkeys(row[0].partition(" ")[0] for row in rows)):
            own = [row for row in rows if row[0].partition(" ")[0] == family]
            style: dict[str, Any] = {
                "marker": MARKERS[index % len(MARKERS)],
                "color": f"C{index % 10}",
                "linestyle": "-" if index < 10 else "--",
                "markersize": 5,
                "label": family,
            }
            left.plot([row[1] for row in own], [row[2] for row in own], **style)
            right.plot([row[2] for row in own], [row[-1] for row in own], **style)
        left.set_yscale("log")
        right.set_xscale("log")
        left.legend(fontsize="xx-small", ncols=2)
        label(left, "8-lane dot product, no DSP", "bits per weight", "LUT")
        label(right, f"{MODEL}, {count} test samples", "LUT", "accuracy, %")
        note = (
            f"linear 64-16 with one unit of 8 lanes, every output bit checked, Yosys xcup; "
            f"{MODEL} with linear layers in the format, trained {TRAINER.epochs} epochs in it, "
            f"{count} test samples, standard error {error:.1f} points"
        )
        columns = ("format", "bits per weight", "LUT", "LUT beside DSP", "DSP", "accuracy, %")
        return Outcome(columns, rows, figure, note)


def trained(subject: Subject, entry: Mapping[str, Any]) -> tuple[float, float]:
    """Return bits per weight, and the accuracy with linear layers in a format."""
    config = {
        "by": "type",
        "default": {"config": {"name": None}},
        "linear": {"config": {**entry, "bias_name": "fixed", "bias_width": 8}},
    }
    split = subject.split
    mg = quantize(subject.mg, config, data=[split.train_inputs[:256]])
    model = QuantizedModel(mg)
    TRAINER.fit(model, split.train_inputs, split.train_labels)
    return storage(mg)["average_weight_bits"], evaluate(model, split.test_inputs, split.test_labels)
