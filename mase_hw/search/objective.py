"""Metrics of a trial: accuracy of the integer reference, storage, and predicted hardware."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mase_hw.data import Split
from mase_hw.emit.flow import to_hardware
from mase_hw.emit.preflight import preflight
from mase_hw.errors import DataError, UnsupportedError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.hardware.estimate import estimate
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.compression.learn_steps import LearnedStepModel
from mase_hw.passes.compression.prune import prune_transform_pass, report_sparsity_analysis_pass
from mase_hw.passes.formats.calibrate import Observations, calibrate_analysis_pass, observe
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.passes.formats.report_quantization import storage
from mase_hw.timing.prediction import predict
from mase_hw.training import (
    EVALUATION_BATCH,
    TASKS,
    Batch,
    Inputs,
    Task,
    Trainer,
    check_samples,
    evaluate,
    scores_of,
    take,
    task_of,
    tensors,
)

HARDWARE = (
    "interval_cycles",
    "latency_cycles",
    "multipliers",
    "lut",
    "dsp",
    "bram",
    "energy_pj",
)
# What can be asked for, and whether more of it is better.
METRICS: Mapping[str, str] = {
    "accuracy": "maximize",
    "average_bits": "minimize",
    "memory_bits": "minimize",
    "sparsity": "maximize",
    **dict.fromkeys(HARDWARE, "minimize"),
    **{task.metric.name: task.metric.direction for task in TASKS.values()},
}
# Parts in which samples are scored when a pruner looks on.
PARTS = 4
# Every sum of operands of this width fits.
NARROW_BITS = 8

# Called with a step and the accuracy so far; it may raise to end the trial.
Report = Callable[[int, float], None]


@dataclass(frozen=True)
class Samples:
    """Samples of trials.

    Attributes:
        inputs: samples on which the task's metric is measured, several inputs as a tuple or by
            name. A search chooses by them: give samples to validate on, and keep those that the
            final report uses away.
        labels: what is wanted of them.
        observed: samples on which ranges are observed; the example inputs without.
        training_inputs: samples to train on, for searches that train.
        training_labels: what is wanted of them.
    """

    inputs: Inputs | None = None
    labels: Tensor | None = None
    observed: Inputs | None = None
    training_inputs: Inputs | None = None
    training_labels: Tensor | None = None

    @classmethod
    def of(cls, split: Split, count: int | None = None) -> Samples:
        """Return the samples of a split, never those to test on; `count` to measure on."""
        return cls(
            take(split.validation_inputs, slice(count)),
            split.validation_labels[:count],
            split.train_inputs,
            split.train_inputs,
            split.train_labels,
        )

    def digest(self) -> str:
        """Return a hash of all samples."""
        parts = [value for value in vars(self).values() if value is not None]
        return digest_of(item for value in parts for item in tensors(value))


@dataclass(frozen=True)
class Recipe:
    """Training in a trial.

    Attributes:
        training: how the model is trained first; None for a model that is trained.
        finetuning: how the quantised graph is trained at the end, if it is.
        learn_steps: whether the scales of the number formats are trained then too.
    """

    training: Trainer | None = None
    finetuning: Trainer | None = None
    learn_steps: bool = False


@dataclass(frozen=True)
class Candidate:
    """A trained graph, ready for number formats.

    Attributes:
        mg: canonical, with observed ranges.
        observations: values of every operand and result.
    """

    mg: MaseGraph
    observations: Observations


@dataclass(frozen=True)
class Measurement:
    """Figures of a trial.

    Attributes:
        values: metrics by name.
        config: number formats with every field, as `emit-verilog` takes them.
        predictions: scores of every sample; None without samples.
        mg: the graph in real numbers with the weights that were measured.
        quantized: the graph in the number formats that were measured.
        without_hardware: what the model and the chosen formats have no hardware for.
    """

    values: Mapping[str, float]
    config: Mapping[str, object]
    predictions: Tensor | None
    mg: MaseGraph
    quantized: MaseGraph
    without_hardware: tuple[str, ...] = ()

    classes: bool = True

    @property
    def digest(self) -> str:
        """A hash of the predictions, which tells whether two runs agree on every sample."""
        if self.predictions is None:
            return digest(torch.empty(0))
        scores = self.predictions
        return digest(scores.reshape(len(scores), -1).argmax(dim=1) if self.classes else scores)


class Evaluator:
    """Measures configurations of graphs.

    Args:
        metrics: the names that `measure` returns.
        samples: data.
        observer: see `calibrate_analysis_pass`.
        recipe: what is trained.
        task: what the scores are measured by.
    """

    def __init__(
        self,
        metrics: tuple[str, ...],
        samples: Samples,
        observer: str = "minmax",
        recipe: Recipe | None = None,
        task: str | Task = "classification",
    ) -> None:
        self._metrics, self._observer = metrics, observer
        self._task = task_of(task)
        self._samples, self._recipe = samples, recipe or Recipe()

    def check(self, mg: MaseGraph) -> None:
        """Refuse data that a canonical graph cannot be measured on, or trained.

        Raises:
            DataError: when samples are missing or none, or a label is no class.
        """
        data, recipe = self._samples, self._recipe
        figure = self._task.metric.name
        if figure in self._metrics:
            if data.inputs is None or data.labels is None:
                raise DataError(
                    f"{figure} needs labelled samples, and {mg.name} comes with none; give data, "
                    f"or objectives without {figure}"
                )
            check_samples(mg, data.inputs, data.labels, self._task)
        if recipe.training or recipe.finetuning:
            check_samples(mg, *self._training_data(mg), self._task)

    def prepare(
        self,
        mg: MaseGraph,
        prunings: Sequence[Mapping[str, object]] = (),
        report: Report | None = None,
    ) -> Candidate:
        """Train a canonical graph if the recipe says so, prune it, and observe its values.

        Args:
            mg: what is trained in place.
            prunings: arguments of `prune_transform_pass`, one after the other.
            report: told of the accuracy after every epoch.
        """
        if self._recipe.training:
            self._fit(self._recipe.training, mg, mg, 0, report)
        for arguments in prunings:
            mg, _ = prune_transform_pass(mg, arguments)
        observed = self._samples.observed
        mg, _ = add_software_metadata_analysis_pass(mg, {})
        data = [mg.example_inputs if observed is None else observed]
        return Candidate(mg, observe(mg, data))

    def measure(
        self,
        candidate: Candidate,
        config: Mapping[str, object],
        parallelism: Mapping[str, object],
        report: Report | None = None,
    ) -> Measurement:
        """Measure one configuration.

        Args:
            candidate: what `prepare` returned; it is left as it was.
            config: number formats.
            parallelism: see `assign_parallelism_transform_pass`.
            report: told of the accuracy so far.

        Raises:
            UnsupportedError: for formats that no hardware takes where others would have it, as
                when a sum grows too wide.
        """
        mg = candidate.mg
        arguments = {
            "config": config,
            "observations": candidate.observations,
            "observer": self._observer,
        }
        _, info = calibrate_analysis_pass(mg, arguments)
        resolved = info["config"]
        quantized, _ = quantize_transform_pass(mg, resolved)
        lacking = check_emits(mg, config, quantized)
        recipe = self._recipe
        if recipe.finetuning:
            start = recipe.training.epochs if recipe.training else 0
            steps = LearnedStepModel(quantized, resolved) if recipe.learn_steps else None
            self._fit(recipe.finetuning, mg, steps or quantized, start, report)
            mg = mg.copy()
            mg.model.load_state_dict(quantized.model.state_dict())
            if steps:
                resolved = steps.config()
                quantized, _ = quantize_transform_pass(mg, resolved)
                lacking = check_emits(mg, config, quantized)
        sums = storage(quantized)
        values = {
            "average_bits": sums["average_weight_bits"],
            "memory_bits": sums["memory_bits"],
        }
        if "sparsity" in self._metrics:
            values["sparsity"] = report_sparsity_analysis_pass(mg)[1]["sparsity"]
        predictions = None
        if self._samples.inputs is not None and self._samples.labels is not None:
            trains = recipe.training is not None or recipe.finetuning is not None
            predictions = self._predict(quantized, None if trains else report)
            values[self._task.metric.name] = self._task.metric(predictions, self._samples.labels)
        if any(name in self._metrics for name in HARDWARE):
            values |= hardware_metrics(quantized, parallelism)
        chosen = {key: values[key] for key in self._metrics}
        classes = self._task.classes
        return Measurement(chosen, resolved, predictions, mg, quantized, lacking, classes)

    def _predict(self, quantized: MaseGraph, report: Report | None) -> Tensor:
        inputs, labels = self._samples.inputs, self._samples.labels
        assert inputs is not None and labels is not None
        run = runner(quantized)
        length = -(-len(labels) // PARTS) if report else EVALUATION_BATCH
        scores: list[Tensor] = []
        for step, start in enumerate(range(0, len(labels), length)):
            scores.append(Batch.of(take(inputs, slice(start, start + length))).run(run))
            if report:
                report(step, self._task.metric(torch.cat(scores), labels[: start + length]))
        return torch.cat(scores)

    def _fit(
        self, trainer: Trainer, mg: MaseGraph, module: Any, start: int, report: Report | None
    ) -> None:
        inputs, labels = self._samples.inputs, self._samples.labels

        def advance(epoch: int, total: int) -> None:
            if report and inputs is not None and labels is not None:
                accuracy = evaluate(module, inputs, labels, self._task.metric)
                report(start + epoch - 1, accuracy)

        replace(trainer, progress=advance, task=self._task).fit(module, *self._training_data(mg))

    def _training_data(self, mg: MaseGraph) -> tuple[Inputs, Tensor]:
        inputs, labels = self._samples.training_inputs, self._samples.training_labels
        if inputs is None or labels is None:
            raise DataError(
                f"training needs labelled samples, and {mg.name} comes with none; give data, or "
                "leave training and finetuning out"
            )
        return inputs, labels


def check_emits(
    mg: MaseGraph, config: Mapping[str, object], quantized: MaseGraph
) -> tuple[str, ...]:
    """Obstacles to hardware; refuse what would have it in narrower formats of this kind.

    Args:
        mg: a canonical graph with observed ranges.
        config: number formats as they were proposed.
        quantized: the graph with them.

    Raises:
        UnsupportedError: naming what is too wide, such as a sum that may exceed 62 bits.
    """
    problems = preflight(quantized)
    if not problems:
        return ()
    reasons = tuple(str(problem) for problem in problems)
    narrow, _ = quantize_transform_pass(mg, _narrowed(config))
    if not preflight(narrow):
        raise UnsupportedError(f"no hardware takes it: {'; '.join(reasons)}")
    return reasons


def _narrowed(config: Mapping[str, object]) -> dict[str, object]:
    narrowed: dict[str, object] = {}
    for key, item in config.items():
        if not isinstance(item, Mapping):
            narrowed[key] = item
            continue
        entry = {
            name: min(value, NARROW_BITS) if name.endswith("_width") else value
            for name, value in item["config"].items()
            if not name.endswith("_frac_width")
        }
        narrowed[key] = {"config": entry}
    return narrowed


def digest(values: Tensor) -> str:
    """Return a hash of a value of every sample."""
    return hashlib.sha256(repr(values.tolist()).encode()).hexdigest()[:16]


def digest_of(items: Iterable[Tensor]) -> str:
    """Return a hash of tensors."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(f"{item.dtype} {tuple(item.shape)}".encode())
        digest.update(item.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def runner(mg: MaseGraph) -> Callable[..., Tensor]:
    """Return the function from inputs to scores that the hardware of a quantised graph computes.

    It takes inputs as the graph does. A graph without an integer reference is run in rounded
    floating point.
    """
    try:
        reference = IntegerReference(mg)
    except UnsupportedError:

        def rounded(*args: Tensor, **kwargs: Tensor) -> Tensor:
            with torch.no_grad():
                return scores_of(mg(*args, **kwargs))

        return rounded
    entries, output = [spec(node) for node in reference.inputs], reference.outputs[0]

    def computed(arguments: list[Tensor]) -> Tensor:
        codes = [
            entry.quantized.encode(item).reshape(-1, *entry.shape)
            for entry, item in zip(entries, arguments, strict=True)
        ]
        values = spec(output).quantized.decode(reference(codes)[output.name])
        return values.squeeze(1) if mg.batched and spec(output).shape[:1] == (1,) else values

    return partial(mg.through, computed)


def score(mg: MaseGraph, inputs: Inputs) -> Tensor:
    """Return the scores of a quantised graph, as its hardware computes them."""
    scores: Tensor = Batch.of(inputs).run(runner(mg))
    return scores


def hardware_metrics(mg: MaseGraph, parallelism: Mapping[str, object]) -> dict[str, float]:
    """Return predicted cycles, multipliers, and estimated resources of a quantised graph."""
    mg = to_hardware(mg, parallelism=dict(parallelism) or 1)
    prediction = predict(mg)
    netlists = [mg.netlist(node) for node in mg.nodes if node.op == "call_function"]
    return {
        "interval_cycles": float(prediction.interval_cycles),
        "latency_cycles": float(prediction.latency_cycles),
        "multipliers": float(sum(netlist.multipliers for netlist in netlists)),
        **asdict(estimate(mg)),
    }
