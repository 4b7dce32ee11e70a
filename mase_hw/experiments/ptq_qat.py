"""Width against accuracy, after quantisation alone and after training with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mase_hw._kinds import Record
from mase_hw.emit.flow import quantize
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import label, new_figure
from mase_hw.experiments._subject import Subject, steps
from mase_hw.training import Trainer, evaluate, standard_error

MODEL = "bert-tiny"
QUICK_WIDTHS, WIDTHS = (4, 6, 8, 16, 32), tuple(range(4, 33, 2))
QUICK_TEST_SAMPLES, QUICK_TRAINING_SAMPLES = 500, 512
TRAINER = Trainer(epochs=1, learning_rate=1e-4)


class PtqQat(Experiment):
    """Fixed point of 4 to 32 bits in the linear layers of BERT-tiny, on the test samples."""

    name = "ptq-qat"
    title = "fixed width 4..32 against accuracy: quantized, and trained quantized"

    def run(self, folder: Path, *, quick: bool, progress: Progress) -> Outcome:
        subject = Subject.load(
            MODEL, train=QUICK_TRAINING_SAMPLES if quick else None, seed=self.seed
        )
        count = QUICK_TEST_SAMPLES if quick else len(subject.split.test_labels)
        inputs, labels = subject.split.test_inputs[:count], subject.split.test_labels[:count]
        widths = QUICK_WIDTHS if quick else WIDTHS
        advance = steps(progress, 2 * len(widths) + 1)
        exact = evaluate(subject.mg, inputs, labels)
        advance()
        rows, quantized, trained = [], [], []
        for width in widths:
            mg = quantize(subject.mg, linear_layers(width), data=[subject.split.train_inputs[:256]])
            quantized.append(evaluate(mg, inputs, labels))
            advance()
            replace(TRAINER, seed=self.seed).fit(
                mg, subject.split.train_inputs, subject.split.train_labels
            )
            trained.append(evaluate(mg, inputs, labels))
            advance()
            rows.append((width, 100 * quantized[-1], 100 * trained[-1]))
        error = standard_error(exact, count)
        figure, (axes,) = new_figure()
        # Beside each other, so that both error bars show.
        for curve, name, marker, shift in (
            (quantized, "PTQ", "o", -0.15),
            (trained, "QAT", "s", 0.15),
        ):
            axes.errorbar(
                [width + shift for width in widths],
                [100 * value for value in curve],
                [100 * standard_error(value, count) for value in curve],
                marker=marker,
                label=name,
                capsize=3,
            )
        axes.axhline(100 * exact, color="gray", linestyle="--", label="float32")
        axes.set_xticks(widths)
        axes.legend()
        label(axes, f"{MODEL}, {count} test samples", "width, bits", "accuracy, %")
        note = (
            f"{MODEL} on snippets: float32 {100 * exact:.1f} %, {count} test samples, standard "
            f"error {100 * error:.1f} points; QAT is {TRAINER.epochs} epoch of "
            f"{len(subject.split.train_labels):,} samples"
        )
        return Outcome(("width", "PTQ, %", "QAT, %"), rows, figure, note)


def linear_layers(width: int) -> Record:
    """Return the configuration: linear layers of a width, biases of 8 bits at the least."""
    entry = {
        "name": "fixed",
        "data_in_width": width,
        "weight_width": width,
        "bias_width": max(width, 8),
    }
    return {"by": "type", "default": {"config": {"name": None}}, "linear": {"config": entry}}
