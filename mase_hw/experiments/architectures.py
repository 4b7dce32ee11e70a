"""Searches of architectures of BERT, whose trials train each architecture once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mase_hw._kinds import Record, Table
from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import draw_best_so_far, new_figure
from mase_hw.experiments._subject import Subject, steps
from mase_hw.experiments.compression import linear_layers
from mase_hw.graph import trace
from mase_hw.graph.masks import hold_masks
from mase_hw.models.builder import build
from mase_hw.passes.compression.prune import prune_transform_pass
from mase_hw.training import evaluate, standard_error

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

MODEL = "bert-tiny"
SQUARE = ["linear", "identity"]
SPACE: dict[str, list[Any]] = {
    "layers": [1, 2],
    "heads": [2, 4],
    "hidden": [64, 128],
    "intermediate": [256, 512],
    **dict.fromkeys(("query", "value", "output"), SQUARE),
}
RECIPE = {"batch_size": 16, "learning_rate": 3e-4}
PLAIN, COMPRESSED, AGAIN = "no compression", "compressed", "compressed, trained again"
Curve = list[float]


@dataclass
class Architectures:
    """Accuracies of architectures on validation samples.

    Attributes:
        size: settings of the experiment.
        seed: of trainings and samplers.
    """

    size: Table
    seed: int
    _known: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts = {key: self.size[key] for key in ("train", "validation")}
        self.subject = Subject.load(MODEL, **counts, seed=self.seed)

    def accuracy(self, arguments: Record, state: str) -> float:
        """Return the accuracy of an architecture that is trained, and compressed up to a state."""
        states = self._known.setdefault(json.dumps(arguments), {})
        if state not in states and state == PLAIN:
            states[PLAIN] = self._score(self._trained(arguments))
        elif state not in states:
            states |= self._compressed(arguments)
        return states[state]

    def _trained(self, arguments: Record) -> Any:
        module = build(MODEL, arguments)
        self.subject.fit(module, epochs=self.size["epochs"], **RECIPE)
        return module

    def _compressed(self, arguments: Record) -> dict[str, float]:
        inputs = self.subject.split.train_inputs
        mg = canonicalize(trace(self._trained(arguments), (inputs[:4],)))
        states = {PLAIN: self._score(mg)}
        mg, _ = prune_transform_pass(mg, {"sparsity": self.size["sparsity"], "scope": "global"})
        mg = quantize(mg, linear_layers(self.size["width"]), data=[inputs[:256]])
        states[COMPRESSED] = self._score(mg)
        hold_masks(mg)
        self.subject.fit(mg, epochs=self.size["epochs"], **RECIPE)
        return states | {AGAIN: self._score(mg)}

    def _score(self, module: Any) -> float:
        split = self.subject.split
        return evaluate(module, split.validation_inputs, split.validation_labels)

    def search(
        self, sampler: str, state: str, advance: Callable[[], None]
    ) -> tuple[Curve, tuple[float, int, str]]:
        """Return the best accuracy after every trial; and that of the best, its place, and it."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)

        def objective(trial: optuna.Trial) -> float:
            arguments = {key: trial.suggest_categorical(key, SPACE[key]) for key in SPACE}
            advance()
            return self.accuracy(arguments, state)

        study = optuna.create_study(direction="maximize", sampler=_sampler(sampler, self.seed))
        study.optimize(objective, n_trials=self.size["trials"])
        values = [float(trial.value or 0.0) for trial in study.trials]
        best = study.best_trial
        told = ", ".join(f"{key} {value}" for key, value in best.params.items())
        curve = [max(values[: place + 1]) for place in range(len(values))]
        return curve, (100 * max(values), best.number + 1, told)

    def outcome(
        self, first: str, curves: dict[str, Curve], rows: Sequence[tuple[object, ...]]
    ) -> Outcome:
        """Return the table and the figure of several searches."""
        count = len(self.subject.split.validation_labels)
        figure, (axes,) = new_figure()
        draw_best_so_far(axes, curves, count, f"{MODEL}, {count} validation samples")
        error = 100 * standard_error(max(max(curve) for curve in curves.values()), count)
        note = (
            f"{MODEL}: {SPACE}, {len(self._known)} architectures trained, each once; standard "
            f"error {error:.1f} points (the bands): the best of several is flattered"
        )
        columns = (first, "best, %", "in trial", "architecture")
        return Outcome(columns, rows, figure, note)  # type: ignore[arg-type]


def _sampler(name: str, seed: int) -> BaseSampler:
    import optuna.samplers

    if name == "grid":
        return optuna.samplers.GridSampler(SPACE, seed=seed)
    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(seed=seed)


SAMPLERS = ("random", "grid", "tpe")


class Samplers(Experiment):
    """Best accuracy on validation samples so far, one curve a sampler."""

    name = "samplers"
    title = "best accuracy so far against trial: random, grid, TPE"
    settings: ClassVar[Table] = {"trials": 100, "train": 256, "validation": 500, "epochs": 1}
    quick: ClassVar[Table] = {"trials": 16, "train": 128, "validation": 200}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        architectures = Architectures(size, self.seed)
        advance = steps(progress, len(SAMPLERS) * size["trials"])
        curves, rows = {}, []
        for name in SAMPLERS:
            curves[name], best = architectures.search(name, PLAIN, advance)
            rows.append((name, *best))
        return architectures.outcome("sampler", curves, rows)


STATES = (PLAIN, COMPRESSED, AGAIN)


class CompressionAware(Experiment):
    """No compression, compression after training, and training once more after it."""

    name = "compression-aware"
    title = "best so far: no compression, compressed, compressed and trained again"
    settings: ClassVar[Table] = {
        "trials": 50,
        "train": 128,
        "validation": 300,
        "epochs": 1,
        "sparsity": 0.5,
        "width": 4,
    }
    quick: ClassVar[Table] = {"trials": 12, "train": 128, "validation": 200}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        architectures = Architectures(size, self.seed)
        advance = steps(progress, len(STATES) * size["trials"])
        curves, rows = {}, []
        for state in STATES:
            curves[state], best = architectures.search("tpe", state, advance)
            rows.append((state, *best))
        return architectures.outcome("search", curves, rows)
