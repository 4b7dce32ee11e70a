"""The steps of a compression, each from a state to the next.

Schedules of gradual pruning: the sparsity of every stage.

`cubic`: `s_k = s (1 - (1 - k / n)^3)` for stage k of n (Zhu & Gupta 2017, arXiv:1710.01878), fast
while much is redundant and slow at the end; `even`: `s_k = s k / n`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from mase_hw._checks import check_bool, check_integer, check_keys, check_share
from mase_hw._config_file import read_formats
from mase_hw._kinds import Record, Setting, Table
from mase_hw.data import Split
from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.masks import hold_masks
from mase_hw.graph.nodes import metadata, update
from mase_hw.passes.compression.learn_steps import LearnedStepModel
from mase_hw.passes.compression.lora import (
    fuse_lora_weights_transform_pass,
    insert_lora_adapter_transform_pass,
)
from mase_hw.passes.compression.prune import prune_transform_pass
from mase_hw.passes.compression.prune_activations import prune_activations_transform_pass
from mase_hw.passes.compression.prune_structure import prune_structure_transform_pass
from mase_hw.passes.formats.calibrate import calibrate_analysis_pass
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.registry import nearest
from mase_hw.search.objective import importance_arguments
from mase_hw.training import TASKS, Inputs, Task, Trainer, take
from mase_hw.training.hugging_face import TransformersTrainer

Progress = Callable[[int, int], None]
CALIBRATION_SAMPLES = 1024


@dataclass(frozen=True)
class State:
    """State between two steps of a compression.

    Attributes:
        mg: the graph, with number formats once it is quantised.
        plain: the graph without formats that `mg` was quantised from; None before that.
        config: its number formats, every field; None before that.
    """

    mg: MaseGraph
    plain: MaseGraph | None = None
    config: Table | None = None

    def check_plain(self, asked: str) -> None:
        """Refuse a step that goes before number formats."""
        if self.plain is not None:
            raise ConfigError(f"pipeline: the graph is quantized already; {asked}")

    def result(self) -> MaseGraph:
        """Return the graph without formats, with the weights as they are now."""
        if self.plain is None:
            return self.mg
        mg = self.plain.copy()
        sources = {node.target: node for node in self.mg.nodes if node.op == "get_attr"}
        with torch.no_grad():
            for node in mg.nodes:
                if node.op == "get_attr" and node.target in sources:
                    source = sources[node.target]
                    mg.constant(node).copy_(self.mg.constant(source))
                    update(node, pruned=metadata(source).pruned)
        return mg


@dataclass(frozen=True)
class Context:
    """Inputs of every step.

    Attributes:
        split: samples; steps see the training part alone.
        seed: of this step.
        checkpoint: file in which training keeps its state; None to keep none.
        progress: called with (done, total) by steps that take long.
        task: what training is for.
    """

    split: Split
    seed: int
    checkpoint: Path | None = None
    progress: Progress | None = None
    task: Task = TASKS["classification"]

    def observed(self, step: str, samples: int) -> list[Inputs]:
        """Return so many training samples, on which values are observed."""
        check_integer(f"{step}: samples", samples, 1)
        return [take(self.split.train_inputs, slice(samples))]


Step = Callable[..., tuple[State, Record]]


def quantize_step(
    state: State,
    context: Context,
    *,
    config: Mapping[str, object] | None = None,
    samples: int = CALIBRATION_SAMPLES,
    **calibration: object,
) -> tuple[State, Record]:
    """Give every tensor a number format, open fields fitted to training samples.

    Args:
        state: a state without formats.
        context: samples.
        config: as `quantize_transform_pass` takes it, or a file of it; 8-bit fixed point without.
        samples: training samples on which values are observed.
        calibration: `observer`, `weight_observer`, `percentile`, see `calibrate_analysis_pass`.
    """
    state.check_plain("quantize once")
    data = context.observed("quantize", samples)
    _, info = calibrate_analysis_pass(state.mg, {"config": config, "data": data, **calibration})
    mg, _ = quantize_transform_pass(state.mg, info["config"])
    return State(mg, state.mg, info["config"]), {}


def pass_step(
    transform: Callable[[MaseGraph, Record], tuple[MaseGraph, Record]],
    state: State,
    context: Context,
    **arguments: object,
) -> tuple[State, Record]:
    """Apply a transform pass that takes a seed."""
    mg, info = transform(state.mg, {"seed": context.seed, **arguments})
    return replace(state, mg=mg), info


def prune_step(state: State, context: Context, **arguments: object) -> tuple[State, Record]:
    """Set weights to zero, the least important on training samples where a criterion asks for it.

    See `prune_transform_pass` for the arguments.
    """
    split = context.split
    measured = importance_arguments(split.train_inputs, split.train_labels, context.task)
    return pass_step(prune_transform_pass, state, context, **{**measured, **arguments})


def prune_activations_step(
    state: State, context: Context, *, samples: int = CALIBRATION_SAMPLES, **arguments: object
) -> tuple[State, Record]:
    """Set values between layers to zero, by thresholds of training samples.

    See `prune_activations_transform_pass` for the arguments.
    """
    state.check_plain("prune activations before")
    data = context.observed("prune_activations", samples)
    return pass_step(prune_activations_transform_pass, state, context, data=data, **arguments)


def lora_step(
    state: State, context: Context, *, train: Table | None = None, **arguments: Setting
) -> tuple[State, Record]:
    """Insert adapters, train them with arguments of the step `train`, and fuse them into weights.

    See `insert_lora_adapter_transform_pass` for the other arguments.
    """
    mg, info = insert_lora_adapter_transform_pass(state.mg, {"seed": context.seed, **arguments})
    trained, told = train_step(replace(state, mg=mg), context, **(train or {}))
    mg, _ = fuse_lora_weights_transform_pass(trained.mg)
    return replace(state, mg=mg), {"trained_parameters": info["trainable"][1], **told}


def train_step(
    state: State,
    context: Context,
    *,
    trainer: str = "loop",
    learn_steps: bool = False,
    freeze: Sequence[str] = (),
    **recipe: object,
) -> tuple[State, Record]:
    """Train the weights; a quantised graph is trained through its rounding.

    Args:
        state: the state, whose graph is trained in a copy.
        context: samples.
        trainer: `loop`, or `transformers` for the trainer of that library.
        learn_steps: train the scales of the number formats too.
        freeze: nodes and operators that stay in evaluation mode, see `MaseGraph.freeze`.
        recipe: `epochs`, `learning_rate`, `batch_size`, `seed`.
    """
    if trainer not in TRAINERS:
        raise ConfigError(f"train: trainer is {trainer!r}; {nearest(str(trainer), TRAINERS)}")
    own = ["trainer", "learn_steps", "freeze"]
    check_keys("train", recipe, ["epochs", "learning_rate", "batch_size", "seed", *own])
    check_bool("train: learn_steps", learn_steps)
    if learn_steps and state.config is None:
        raise ConfigError("train: learn_steps needs number formats; quantize first")
    mg = state.mg.copy().freeze(*freeze)
    module: nn.Module = mg
    if learn_steps and state.config is not None:
        module = LearnedStepModel(mg, state.config)
    hold_masks(mg)
    fit = TRAINERS[trainer](
        **{"seed": context.seed, **recipe},
        progress=context.progress,
        checkpoint=context.checkpoint,
        task=context.task,
    )
    split = context.split
    held = split.validation_inputs, split.validation_labels
    history = fit.fit(module, split.train_inputs, split.train_labels, held)
    mg.frozen = state.mg.frozen
    state = replace(state, mg=mg)
    if isinstance(module, LearnedStepModel):
        config = module.config()
        mg, _ = quantize_transform_pass(state.result(), config)
        state = replace(state, mg=mg, config=config)
    return state, {"history": history}


TRAINERS: Mapping[str, Callable[..., Trainer | TransformersTrainer]] = {
    "loop": Trainer,
    "transformers": TransformersTrainer,
}
STEPS: Mapping[str, Step] = {
    "quantize": quantize_step,
    "prune": prune_step,
    "prune_activations": prune_activations_step,
    "prune_structure": partial(pass_step, prune_structure_transform_pass),
    "lora": lora_step,
    "train": train_step,
}


def parse_steps(steps: object) -> list[tuple[str, Record]]:
    """Return the simple steps of a declaration.

    Args:
        steps: a list of tables, each with `pass`, the step's name or that of its pass
            (`prune_transform_pass`), and its arguments; or of pairs of the two. A step `prune`
            with a `schedule` becomes `stages` of pruning, each but the last followed by training
            with the arguments `train`.

    Raises:
        ConfigError: for an unknown step, or arguments that it does not have.
    """
    if not isinstance(steps, list | tuple) or not steps:
        raise ConfigError("pipeline: steps is empty; give a list of tables with `pass`")
    simple = [
        step for number, item in enumerate(steps) for step in _expanded(*_entry(number, item))
    ]
    for name, arguments in simple:
        parameters = inspect.signature(STEPS[name]).parameters.values()
        if not any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters):
            words = (item for item in parameters if item.kind is inspect.Parameter.KEYWORD_ONLY)
            check_keys(name, arguments, [item.name for item in words])
    return simple


def _entry(number: int, item: object) -> tuple[str, Record]:
    if isinstance(item, Mapping):
        arguments = dict(item)
        name = str(arguments.pop("pass", ""))
    elif isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[1], Mapping):
        name, arguments = str(item[0]), dict(item[1])
    else:
        raise ConfigError(f"pipeline: step {number} is {item!r}; allowed: a table with `pass`")
    short = name.removesuffix("_transform_pass")
    if short not in STEPS:
        raise ConfigError(f"pipeline: step {number} is the pass {name!r}; {nearest(short, STEPS)}")
    if isinstance(arguments.get("config"), str | Path):
        arguments["config"] = read_formats(arguments["config"])
    return short, arguments


def _expanded(name: str, arguments: Record) -> list[tuple[str, Record]]:
    rest = dict(arguments)
    if "schedule" not in rest:
        return [(name, rest)]
    schedule, final, train = (rest.pop(key, None) for key in ("schedule", "sparsity", "train"))
    stages = sparsity_schedule(schedule, final, rest.pop("stages", 4))
    steps: list[tuple[str, Record]] = []
    for sparsity in stages:
        steps += [(name, {**rest, "sparsity": sparsity}), ("train", dict(train or {}))]
    return steps[:-1]


SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "cubic": lambda share: 1.0 - (1.0 - share) ** 3,
    "even": lambda share: share,
}


def sparsity_schedule(name: str, sparsity: object, stages: object) -> list[float]:
    """Return the sparsity of every stage, the last one `sparsity`.

    Args:
        name: `cubic` or `even`.
        sparsity: in the end, from 0 to below 1.
        stages: number of stages.

    Raises:
        ConfigError: for an unknown schedule, or a number out of range.
    """
    if name not in SCHEDULES:
        raise ConfigError(f"pruning: schedule is {name!r}; {nearest(str(name), SCHEDULES)}")
    end = check_share("pruning: sparsity", sparsity)
    count = check_integer("pruning: stages", stages, 1)
    return [end * SCHEDULES[name](number / count) for number in range(1, count + 1)]
