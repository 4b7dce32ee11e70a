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
from mase_hw.ops import operator_for
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
    loss_of,
    scores_of,
    size,
    take,
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
# Metrics by name, and whether more of them is better.
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
# Samples on which importance of weights is measured, and those of a batch.
IMPORTANCE, IMPORTANCE_BATCH = 1024, 64
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
        labels: of these.
        observed: samples on which ranges are observed; the example inputs without.
        training_inputs: samples to train on, for searches that train.
        training_labels: of these.
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
        training: of the model first; None for a model that is trained.
        finetuning: of the quantised graph at the end; None for none.
        learn_steps: whether the scales of the number formats are trained then too.
    """

    training: Trainer | None = None
    finetuning: Trainer | None = None
    learn_steps: bool = False


@dataclass(frozen=True)
class Candidate:
    """A trained canonical graph with observed ranges, and the values of its tensors."""

    mg: MaseGraph
    observations: Observations


@dataclass(frozen=True)
class Measurement:
    """Figures of a trial.

    Attributes:
        values: metrics by name.
        config: number formats with every field, as `emit-verilog` takes them.
        digest: a hash of the predictions, of classes where the task has them, which tells whether
            two runs agree on every sample.
        mg: the graph in real numbers with the weights that were measured.
        quantized: the graph in the number formats that were measured.
        without_hardware: nodes and formats without hardware, and why.
    """

    values: Mapping[str, float]
    config: Mapping[str, object]
    digest: str
    mg: MaseGraph
    quantized: MaseGraph
    without_hardware: tuple[str, ...] = ()


class Evaluator:
    """Measures the metrics of configurations of graphs; the observer is that of calibration."""

    def __init__(
        self,
        metrics: tuple[str, ...],
        samples: Samples,
        observer: str,
        recipe: Recipe,
        task: Task,
    ) -> None:
        self._metrics, self._observer, self._task = metrics, observer, task
        self._samples, self._recipe = samples, recipe

    def check(self, mg: MaseGraph) -> None:
        """Refuse data that a canonical graph cannot be measured on, or trained.

        Raises:
            DataError: when samples are missing or none, or a label is no class.
        """
        data, recipe, figure = self._samples, self._recipe, self._task.metric.name
        if figure in self._metrics:
            if data.inputs is None or data.labels is None:
                raise DataError(
                    f"{figure} needs labelled samples, and {mg.name} comes with none; give data, "
                    f"or objectives without {figure}"
                )
            check_samples(mg, data.inputs, data.labels, self._task)
        if recipe.training or recipe.finetuning:
            check_samples(mg, *self._training_data(mg), self._task)

    def check_hardware(self, mg: MaseGraph) -> None:
        """Refuse figures of hardware for a canonical graph that has none in any format.

        Raises:
            UnsupportedError: naming all such nodes.
        """
        asked = [name for name in self._metrics if name in HARDWARE]
        nodes = [node for node in mg.nodes if node.op == "call_function"] if asked else []
        unknown = {node.name for node in nodes if operator_for(node.target) is None}
        lacking = [str(item) for item in preflight(mg) if item.node in unknown] if unknown else []
        if lacking:
            lines = "\n".join(f"  {line}" for line in lacking)
            raise UnsupportedError(
                f"search: {asked[0]} is a figure of hardware, which {mg.name} has not in any "
                f"format:\n{lines}"
            )

    def prepare(
        self,
        mg: MaseGraph,
        prunings: Sequence[Mapping[str, object]] = (),
        report: Report | None = None,
    ) -> Candidate:
        """Train a canonical graph in place if the recipe says so, prune it, observe its values.

        Prunings are arguments of `prune_transform_pass`; the accuracy is reported by epoch.
        """
        if self._recipe.training:
            self._fit(self._recipe.training, mg, mg, 0, report)
        data = self._samples
        inputs = data.observed if data.training_inputs is None else data.training_inputs
        for arguments in prunings:
            measured = importance_arguments(inputs, data.training_labels, self._task)
            mg, _ = prune_transform_pass(mg, {**measured, **arguments})
        observed = data.observed
        mg, _ = add_software_metadata_analysis_pass(mg, {})
        return Candidate(mg, observe(mg, [mg.example_inputs if observed is None else observed]))

    def measure(
        self,
        candidate: Candidate,
        config: Mapping[str, object],
        parallelism: Mapping[str, object],
        report: Report | None = None,
    ) -> Measurement:
        """Measure number formats and a parallelism of a candidate, which is left as it was.

        Raises:
            UnsupportedError: for formats that no hardware takes where others would have it, as
                when a sum grows too wide.
        """
        mg, recipe, data = candidate.mg, self._recipe, self._samples
        arguments = {
            "config": config,
            "observations": candidate.observations,
            "observer": self._observer,
        }
        _, info = calibrate_analysis_pass(mg, arguments)
        resolved = info["config"]
        quantized, _ = quantize_transform_pass(mg, resolved)
        lacking = check_emits(mg, config, quantized)
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
        scores = torch.empty(0)
        if data.inputs is not None and data.labels is not None:
            trains = recipe.training is not None or recipe.finetuning is not None
            scores = self._predict(quantized, data.inputs, data.labels, None if trains else report)
            values[self._task.metric.name] = self._task.metric(scores, data.labels)
            if self._task.classes:
                scores = scores.reshape(len(scores), -1).argmax(dim=1)
        if any(name in self._metrics for name in HARDWARE):
            values |= hardware_metrics(quantized, parallelism)
        chosen = {key: values[key] for key in self._metrics}
        return Measurement(chosen, resolved, digest(scores), mg, quantized, lacking)

    def _predict(
        self, quantized: MaseGraph, inputs: Inputs, labels: Tensor, report: Report | None
    ) -> Tensor:
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
                report(start + epoch - 1, evaluate(module, inputs, labels, self._task.metric))

        replace(trainer, progress=advance, task=self._task).fit(module, *self._training_data(mg))

    def _training_data(self, mg: MaseGraph) -> tuple[Inputs, Tensor]:
        inputs, labels = self._samples.training_inputs, self._samples.training_labels
        if inputs is None or labels is None:
            raise DataError(
                f"training needs labelled samples, and {mg.name} comes with none; give data, or "
                "leave training and finetuning out"
            )
        return inputs, labels


def importance_arguments(
    inputs: Inputs | None, labels: Tensor | None, task: Task
) -> dict[str, object]:
    """Return the arguments of `prune_transform_pass` by which importance on samples is measured."""
    if inputs is None:
        return {}

    def loss(mg: MaseGraph, batch: Any) -> Tensor:
        if labels is None:
            raise DataError("pruning by gradients needs labelled samples to train on; give data")
        return loss_of(mg, Batch.of(*batch), task)

    starts = range(0, min(size(inputs), IMPORTANCE), IMPORTANCE_BATCH)
    parts = [slice(start, start + IMPORTANCE_BATCH) for start in starts]
    return {
        "data": [
            take(inputs, part) if labels is None else (take(inputs, part), labels[part])
            for part in parts
        ],
        "loss": loss,
    }


def check_emits(
    mg: MaseGraph, config: Mapping[str, object], quantized: MaseGraph
) -> tuple[str, ...]:
    """Return obstacles to hardware; refuse proposals that narrower formats of their kind lack.

    Raises:
        UnsupportedError: naming what is too wide, such as a sum that may exceed 62 bits.
    """
    problems = preflight(quantized)
    reasons = tuple(str(problem) for problem in problems)
    if problems:
        narrowed = {
            key: {
                "config": {
                    name: min(value, NARROW_BITS) if name.endswith("_width") else value
                    for name, value in item["config"].items()
                    if not name.endswith("_frac_width")
                }
            }
            if isinstance(item, Mapping)
            else item
            for key, item in config.items()
        }
        if not preflight(quantize_transform_pass(mg, narrowed)[0]):
            raise UnsupportedError(f"no hardware takes it: {'; '.join(reasons)}")
    return reasons


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
