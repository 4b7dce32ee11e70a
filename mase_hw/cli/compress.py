"""`compress` and `sweep`: quantize, prune and fine-tune in a declared order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw.cli._options import CHOICES, Data, Model, Output, Weights, command
from mase_hw.cli._progress import Display

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLUMNS = (
    "accuracy",
    "mean_squared_error",
    "perplexity",
    "standard_error",
    "parameters",
    "sparsity",
    "average_weight_bits",
)


@command(CHOICES)
def compress(
    model: Model,
    *,
    config: Path,
    output: Output = None,
    weights: Weights = None,
    data: Data = None,
    display: Display,
) -> None:
    """Prune, quantize and fine-tune MODEL; emit-verilog takes the result.

    Options:
        config: TOML file with seed, steps and parallelism.
        output: folder to write (default: build/NAME-compressed).
    """
    from mase_hw._config_file import read_toml
    from mase_hw.cli._model import load_data, load_subject
    from mase_hw.pipelines.compression import CompressionPipeline

    pipeline = CompressionPipeline.from_config(read_toml(config))
    subject = load_subject(model, display, weights)
    folder = output or Path("build") / f"{subject.mg.name}-compressed"
    with display.progress(f"compressing {subject.mg.name}") as advance:
        result = pipeline(subject.mg, load_data(subject, data), output=folder, progress=advance)
    display.json({**result.to_dict(), "folder": str(folder)})
    _show("compression", result.rows, ("step", *COLUMNS), display)
    _show_test(result.test, display)
    command = f"mase-hw emit-verilog {model} --weights {folder / 'model.mase'}"
    if result.config is not None:
        command += f" --config {folder / 'config.toml'}"
    display.say(f"{command} --simulate")


@command(CHOICES)
def sweep(
    model: Model,
    *,
    config: Path,
    output: Output = None,
    weights: Weights = None,
    data: Data = None,
    display: Display,
) -> None:
    """Run a compression at every point of a grid; write a table and a figure.

    Options:
        config: TOML file with a compression, and a table sweep of lists.
        output: folder to write (default: build/NAME-sweep).
    """
    from mase_hw._config_file import read_toml
    from mase_hw.cli._model import load_data, load_subject
    from mase_hw.pipelines.sweep import sweep as run

    tables = read_toml(config)
    subject = load_subject(model, display, weights)
    folder = output or Path("build") / f"{subject.mg.name}-sweep"
    with display.progress(f"sweeping {subject.mg.name}") as advance:
        result = run(subject.mg, load_data(subject, data), tables, output=folder, progress=advance)
    display.json({"points": list(result.rows), "folder": str(folder)})
    _show("sweep", result.rows, (*tables["sweep"], *COLUMNS, "error"), display)
    display.say(folder / "sweep.csv")


def _show(
    title: str, rows: Sequence[Mapping[str, object]], columns: Sequence[str], display: Display
) -> None:
    from rich.table import Table

    shown = [name for name in columns if any(name in row for row in rows)]
    table = Table(title=title)
    for name in shown:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(_text(row.get(name, "")) for name in shown))
    display.console.print(table)


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _show_test(test: Mapping[str, object], display: Display) -> None:
    texts = []
    for when, word in (("before", "standard error "), ("after", "")):
        error = test.get(f"{when}_error")
        texts.append(f"{test[when]:.4f}" + ("" if error is None else f" ({word}{error:.4f})"))
    name = str(test["metric"]).replace("_", " ")
    display.say(f"{name} on {test['samples']} test samples: {texts[0]} before, {texts[1]} after")
