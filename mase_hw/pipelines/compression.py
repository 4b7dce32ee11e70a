"""`CompressionPipeline`: quantize, prune and fine-tune in a declared order."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from mase_hw._checks import check_keys
from mase_hw._config_file import write_formats
from mase_hw._drawing import bars, curves, save_figure, spans
from mase_hw._kinds import Record, Table
from mase_hw._results import remove_results, result_file, result_folder, write_json, write_table
from mase_hw.data import Split
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError, DataError, MaseError, UnsupportedError
from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.compression.prune import report_sparsity_analysis_pass
from mase_hw.passes.formats.calibrate import observe
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.passes.formats.report_quantization import (
    FLOAT_BITS,
    quantized_nodes,
    report_quantization_analysis_pass,
    storage,
)
from mase_hw.pipelines._steps import STEPS, Context, Progress, State, parse_steps
from mase_hw.search.objective import digest_of, hardware_metrics, runner
from mase_hw.search.space import settle
from mase_hw.training import (
    Batch,
    Inputs,
    Task,
    check_samples,
    counted,
    evaluate,
    scores_of,
    take,
    task_of,
)

TABLES = ("seed", "task", "steps", "parallelism")
CHECK_SAMPLES = 64


@dataclass(frozen=True)
class CompressionResult:
    """Results of a compression.

    Attributes:
        mg: the graph without formats, in its final weights.
        config: its number formats, every field; None when it was not quantized.
        rows: one table row a step, the first one before any.
        test: the task's metric on the test samples, before and after; of a share with standard
            errors.
        hardware: predicted cycles and multipliers; empty where something has no hardware.
        folder: where the files lie; None when none was asked for.
    """

    mg: MaseGraph
    config: Table | None
    rows: Sequence[Table]
    test: Mapping[str, float]
    hardware: Mapping[str, float]
    folder: Path | None

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serializable description."""
        return {"steps": list(self.rows), "test": self.test, "hardware": self.hardware}


class CompressionPipeline:
    """Compression in a declared order; the result is emitted as it is.

    Every step sees the training samples. Steps are scored on the validation samples, and the first
    and the last state on the test samples, once.

    Args:
        steps: see `parse_steps`.
        seed: of everything that chance decides.
        parallelism: a table that is written beside the number formats.
        task: loss and metric, as `Trainer` takes it.

    Raises:
        ConfigError: for an unknown step, or arguments that it does not have.

    Examples:
        >>> pipeline = CompressionPipeline(
        ...     [
        ...         {"pass": "prune", "sparsity": 0.5},
        ...         {"pass": "train", "epochs": 3},
        ...         {"pass": "quantize"},
        ...         {"pass": "train", "epochs": 3},
        ...     ]
        ... )
        >>> result = pipeline(mg, split, output="build/compressed")
    """

    def __init__(
        self,
        steps: object,
        *,
        seed: int = 0,
        parallelism: Mapping[str, object] | None = None,
        task: str | Task = "classification",
    ) -> None:
        self.steps = parse_steps(steps)
        self.seed = seed
        self.task = task_of(task)
        self.parallelism = parallelism

    @classmethod
    def from_config(cls, config: Table) -> CompressionPipeline:
        """Return the pipeline of a configuration: `steps`, `seed`, `task` and `parallelism`.

        Raises:
            ConfigError: for an unknown key, and as the constructor.
        """
        check_keys("pipeline", config, TABLES)
        seed = config.get("seed", 0)
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise ConfigError(f"pipeline: seed is {seed!r}; allowed: a whole number")
        task = config.get("task", "classification")
        return cls(config.get("steps"), seed=seed, parallelism=config.get("parallelism"), task=task)

    def __call__(
        self,
        mg: MaseGraph,
        split: object,
        *,
        output: str | Path | None = None,
        progress: Progress | None = None,
    ) -> CompressionResult:
        """Compress a graph.

        A compression that was stopped goes on after its last finished step, or epoch, when it is
        started again with the same folder.

        Args:
            mg: a captured graph, which is not changed.
            split: samples as `mase_hw.data.Split.read` takes them: a `Split`, arrays, data sets or
                loaders; without validation samples a part of the training samples is held out.
            output: folder of the results.
            progress: called with (steps done, steps) and, within a step that trains, fractions.

        Raises:
            DataError: for data that cannot be trained or measured on.
            MaseError: as the passes do.
        """
        split = Split.read(split)
        if output is None:
            return self._compressed(mg, split, None, progress)
        folder, names = Path(output), ("model.mase", "config.toml", *files(self.task.metric.name))
        with result_folder(folder, names):
            return self._compressed(mg, split, folder, progress)

    def _compressed(
        self, mg: MaseGraph, split: Split, folder: Path | None, progress: Progress | None
    ) -> CompressionResult:
        start, steps = self.settled(mg)
        check_samples(start, split.test_inputs, split.test_labels, self.task)
        check_samples(start, split.validation_inputs, split.validation_labels, self.task)
        state = State(start)
        rows = [self._row("start", state, split)]
        weights = [value for _, value in sorted(start.model.state_dict().items())]
        identity = f"{start.name} {self.seed} {self.task.name} {torch.__version__} "
        identity += digest_of((*weights, *split.tensors()))
        for number, (name, arguments) in enumerate(steps):
            text = f"{identity} {name} {json.dumps(arguments, sort_keys=True)}"
            identity = hashlib.sha256(text.encode()).hexdigest()[:16]
            stem = None if folder is None else folder / "steps" / f"{number + 1:02d}_{name}"
            done = None if stem is None else _load(stem, identity)
            if done is None:
                within = None
                if progress is not None:
                    within = partial(_advance, progress, number, len(steps))
                done = self._run((number, name, arguments), state, split, identity, stem, within)
            state = done[0]
            rows.append(done[1])
            if progress:
                progress(number + 1, len(steps))
        mg, few = state.result(), take(split.validation_inputs, slice(CHECK_SAMPLES))
        hardware: Mapping[str, float] = {}
        if state.config is not None:
            check_reproduces(mg, state.config, state.mg, few)
            with suppress(UnsupportedError):
                hardware = hardware_metrics(state.mg, self.parallelism or {})
        test: Record = {"metric": self.task.metric.name, "samples": len(split.test_labels)}
        for when, reached in (("before", State(start)), ("after", state)):
            test[when], error = self._figure(reached, split.test_inputs, split.test_labels)
            test |= {} if error is None else {f"{when}_error": error}
        result = CompressionResult(mg, state.config, rows, test, hardware, folder)
        if folder is not None:
            with result_file(folder / "model.mase") as file:
                mg.save(file)
            if state.config is not None:
                write_formats(folder / "config.toml", state.config, self.parallelism)
            quantized = None if state.config is None else state.mg
            write_report(folder, result.to_dict(), quantized, few)
        return result

    def settled(self, mg: MaseGraph) -> tuple[MaseGraph, list[tuple[str, Record]]]:
        """Return the canonical graph, and the steps with number formats in which no tie is left.

        Raises:
            ConfigError: for formats that the graph cannot have.
        """
        formats = [arguments.get("config") for name, arguments in self.steps if name == "quantize"]
        start = canonicalize(mg, formats[0] if formats else None)
        return start, [
            (name, {**arguments, "config": settle(start, arguments["config"])})
            if name == "quantize" and arguments.get("config") is not None
            else (name, arguments)
            for name, arguments in self.steps
        ]

    def _run(
        self,
        step: tuple[int, str, Record],
        state: State,
        split: Split,
        identity: str,
        stem: Path | None,
        progress: Progress | None,
    ) -> tuple[State, Record]:
        number, name, arguments = step
        checkpoint = None if stem is None else stem.with_name(f"{stem.name}-{identity}.ckpt")
        context = Context(split, self.seed + number, checkpoint, progress, self.task)
        state, info = STEPS[name](state, context, **arguments)
        history = info.pop("history", None)
        scalars = {k: v for k, v in info.items() if isinstance(v, bool | int | float)}
        row = {**self._row(name, state, split), **scalars}
        if history is not None and history.epochs:
            kept = history.epochs[(history.best or len(history.epochs)) - 1]
            row |= {"loss": kept.loss, "best_epoch": kept.number}
            if stem is not None:
                figure = stem.parent.parent / f"epochs_{number + 1:02d}"
                with result_file(figure.with_suffix(".csv")) as file:
                    history.save(file)
                history.draw(figure)
        if stem is not None:
            _save(stem, identity, state, row)
        return state, row

    def _row(self, name: str, state: State, split: Split) -> Record:
        value, error = self._figure(state, split.validation_inputs, split.validation_labels)
        parameters = sum(item.numel() for item in state.result().model.parameters())
        sums = storage(state.mg) if state.config is not None else {}
        return {
            "step": name,
            self.task.metric.name: value,
            **({} if error is None else {"standard_error": error}),
            "parameters": parameters,
            "sparsity": report_sparsity_analysis_pass(state.mg)[1]["sparsity"],
            "average_weight_bits": sums.get("average_weight_bits", FLOAT_BITS),
            "average_activation_bits": sums.get("average_activation_bits", FLOAT_BITS),
            "memory_bits": sums.get("memory_bits", FLOAT_BITS * parameters),
        }

    def _figure(self, state: State, inputs: Inputs, labels: Tensor) -> tuple[float, float | None]:
        """Return the metric of a state, and the standard error of a share."""
        model = state.mg if state.config is None else runner(state.mg)
        value = evaluate(model, inputs, labels, self.task.metric)
        return value, self.task.metric.standard_error(value, counted(labels))


def check_reproduces(
    mg: MaseGraph, config: Mapping[str, object], expected: MaseGraph, inputs: Inputs
) -> None:
    """Raise unless the graph, quantized by the configuration, computes what `expected` does.

    Raises:
        MaseError: when an output differs.
    """
    again, _ = add_software_metadata_analysis_pass(canonicalize(mg, config), {})
    again, _ = quantize_transform_pass(again, config)
    batch = Batch.of(inputs)
    with torch.no_grad():
        scores, wanted = scores_of(batch.run(again)), scores_of(batch.run(expected))
    if not torch.equal(scores, wanted):
        count = int((scores != wanted).sum())
        raise MaseError(f"{mg.name}: {count} outputs differ after its files are read again")


def _advance(progress: Progress, step: int, steps: int, done: int, total: int) -> None:
    progress(100 * step + 100 * done // max(total, 1), 100 * steps)


def _save(stem: Path, identity: str, state: State, row: Mapping[str, object]) -> None:
    # Another compression's step of this number.
    remove_results(stem.parent, f"{stem.name.partition('_')[0]}_*")
    with result_file(stem.with_suffix(".mase")) as file:
        state.mg.save(file)
    if state.plain is not None:
        with result_file(stem.with_suffix(".plain.mase")) as file:
            state.plain.save(file)
    entry = {"identity": identity, "config": state.config, "row": row}
    with result_file(stem.with_suffix(".json")) as file:
        file.write_text(json.dumps(entry, indent=2))
    for path in stem.parent.glob(f"{stem.name}-{identity}*.ckpt"):
        path.unlink()


def _load(stem: Path, identity: str) -> tuple[State, Record] | None:
    path = stem.with_suffix(".json")
    try:
        entry = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}; remove it to do the step again") from error
    if entry.get("identity") != identity:
        return None
    mg = MaseGraph.load(stem.with_suffix(".mase"))
    plain = None
    if entry["config"] is not None:
        plain = MaseGraph.load(stem.with_suffix(".plain.mase"))
    return State(mg, plain, entry["config"]), entry["row"]


BEYOND = 3e38
ROW_INCHES, LEAST_INCHES = 0.22, 2.5


def files(metric: str) -> list[str]:
    """Return the names of all files of a report."""
    figures = [f"{name}.{kind}" for name in (metric, "noise", "ranges") for kind in ("png", "svg")]
    return ["steps.csv", "layers.csv", "report.json", *figures]


def write_report(folder: Path, description: Table, mg: MaseGraph | None, inputs: Inputs) -> None:
    """Write the report of a compression.

    Files: `steps.csv`, `report.json`, a figure of the task's metric such as `accuracy`; of a
    quantized graph `layers.csv` and the figures `noise` and `ranges`.

    The description has `steps`, a list of rows, and `test` with the name of the metric. Layers of
    the quantized graph, None when it has no formats, are compared on the inputs.
    """
    rows = description["steps"]
    write_table(folder / "steps.csv", rows)
    metric = str(description["test"]["metric"])
    points = [
        (f"{number} {row['step']}", row[metric], row.get("standard_error", 0.0))
        for number, row in enumerate(rows)
    ]
    title = f"{metric.replace('_', ' ')} (validation)"
    save_figure(folder / metric, curves({"": points}, "step", title))
    entry = dict(description)
    if mg is not None:
        _, info = report_quantization_analysis_pass(mg, {"data": inputs})
        entry |= info
        write_table(folder / "layers.csv", [_flat(layer) for layer in info["layers"]])
        _draw_noise(folder, info["layers"])
        _draw_ranges(folder, mg, inputs)
    write_json(folder / "report.json", entry)


def _flat(layer: Table) -> dict[str, object]:
    rest = {key: value for key, value in layer.items() if key not in ("formats", "saturated")}
    rest |= {f"format_{name}": text for name, text in layer["formats"].items()}
    return rest | {f"saturated_{name}": share for name, share in layer["saturated"].items()}


def _height(rows: int) -> float:
    return max(LEAST_INCHES, 1.2 + ROW_INCHES * rows)


def _draw_noise(folder: Path, layers: Sequence[Table]) -> None:
    def decibels(key: str) -> dict[str, float]:
        # What lost nothing has no bar.
        return {layer["name"]: layer[key] if math.isfinite(layer[key]) else 0.0 for layer in layers}

    groups = {
        "SQNR of the layer's result": decibels("sqnr_db"),
        "SQNR of the output, this layer alone": decibels("sensitivity_db"),
    }
    if layers:
        save_figure(folder / "noise", bars(groups, "decibels"), height=_height(2 * len(layers)))


def _draw_ranges(folder: Path, mg: MaseGraph, inputs: object) -> None:
    seen = observe(mg, [inputs])
    rows = []
    for node in quantized_nodes(mg):
        for name, spec in {**common(node).operands, **common(node).results}.items():
            sample = seen[node.name].get(name)
            if spec.format is not None and sample is not None:
                observed = (sample.minimum, sample.maximum)
                rows.append((f"{node.name}.{name}", observed, limits(spec.format)))
    if rows:
        save_figure(folder / "ranges", spans(rows, "value"), height=_height(len(rows)))


def limits(number_format: Format) -> tuple[float, float]:
    """Return the least and the greatest value to which a format saturates."""
    ends = [
        float(number_format.round_values(torch.full((1,), end, dtype=torch.float64)))
        for end in (-BEYOND, BEYOND)
    ]
    return min(ends), max(ends)
