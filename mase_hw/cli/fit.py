"""`fit`: the number formats that keep MODEL for the least hardware."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mase_hw._kinds import Record, Setting
from mase_hw.cli._files import claim
from mase_hw.cli._options import (
    CHOICES,
    Clock,
    Config,
    Json,
    Model,
    Parallelism,
    TargetFps,
    TargetInterval,
)
from mase_hw.cli._progress import Display
from mase_hw.cli.compress import DataOption, WeightsOption

if TYPE_CHECKING:
    from mase_hw.cli._model import Subject
    from mase_hw.precision import Fitted

# Rows that are printed; all of them are in the file.
SHOWN = 24
DEFAULT_SQNR = 30.0
Formats = Annotated[
    str | None, typer.Option(help="Format families to try, with commas between (default: all).")
]
MaxDrop = Annotated[
    float | None,
    typer.Option(metavar="POINTS", help="Accuracy that may be lost, in percentage points."),
]


def register(app: typer.Typer) -> None:
    """Add the command `fit` to the application."""
    app.command("fit", rich_help_panel=CHOICES)(fit)


def fit(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to write (default: build/NAME-formats)."),
    ] = None,
    min_sqnr: Annotated[
        float | None,
        typer.Option(metavar="DB", help="Signal over error that every output must keep."),
    ] = None,
    max_drop: MaxDrop = None,
    max_lut: Annotated[float | None, typer.Option(help="Look-up tables, at most.")] = None,
    max_bram: Annotated[float | None, typer.Option(help="Block RAMs, at most.")] = None,
    formats: Formats = None,
    config: Config = None,
    parallelism: Parallelism = None,
    target_interval: TargetInterval = None,
    target_fps: TargetFps = None,
    clock: Clock = None,
    weights: WeightsOption = None,
    data: DataOption = None,
    train: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="EPOCHS",
            help="Train through the rounding of the formats found, and of cheaper ones.",
        ),
    ] = None,
    prepare: Annotated[
        bool, typer.Option(help="Try ranges, codes, biases and channel scales fitted to data.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of the measurement of errors.")] = 0,
    json_output: Json = False,
) -> None:
    """Find number formats that keep the accuracy of MODEL for the least hardware.

    Writes formats.toml, which emit-verilog --config takes, formats.csv and a figure of the front.
    Without a bound of what may be lost, the best agreement within --max-lut and --max-bram.
    """
    from mase_hw.cli._model import load_subject, read_config, read_parallelism, with_targets
    from mase_hw.precision.report import FILES, WEIGHTS, head, to_dict, write

    display = Display(quiet=json_output)
    asked = None if parallelism is None else read_parallelism(parallelism)
    given = read_config(config)
    subject = load_subject(model, display, weights)
    folder = output or Path("build") / f"{subject.mg.name}-formats"
    claim(folder, FILES)
    lanes = given.settle(subject, asked).parallelism
    targets = {"target_interval": target_interval, "target_fps": target_fps, "clock": clock}
    if asked is None and any(value is not None for value in targets.values()):
        lanes = lanes if isinstance(lanes, dict) else "auto"
    goal = {"min_sqnr": min_sqnr, "max_drop": max_drop, "max_lut": max_lut, "max_bram": max_bram}
    found = find(
        subject,
        display,
        data,
        **goal,
        formats=None if formats is None else [word.strip() for word in formats.split(",")],
        parallelism=with_targets(lanes, targets),
        seed=seed,
        prepare=prepare,
        output=folder,
    )
    if train is not None:
        found = _trained(found, subject, display, data, train, seed)
    path = write(found, folder)
    if json_output:
        typer.echo(json.dumps({**to_dict(found), "folder": str(folder)}, indent=2))
        return
    _show(found, display)
    for line in head(found):
        display.console.print(line, markup=False, soft_wrap=True)
    command = f"mase-hw emit-verilog {model} --config {path}"
    command += f" --weights {weights}" if weights is not None else ""
    if found.has_own_weights:
        command = f"mase-hw emit-verilog {model} --weights {folder / WEIGHTS}"
    display.console.print(f"{command} --simulate", markup=False, soft_wrap=True)


def automatic(
    subject: Subject,
    display: Display,
    word: str,
    config: object,
    parallelism: object,
    min_sqnr: float | None,
) -> Fitted:
    """Return the formats that keep a model, for `--formats auto`.

    Raises:
        ConfigError: for another word, or formats that a file gives.
    """
    from mase_hw.errors import ConfigError

    if word != "auto":
        raise ConfigError(f"--formats is {word!r}; allowed: auto")
    if config is not None:
        raise ConfigError(
            "--formats auto finds number formats, and --config gives them, too; give one of them"
        )
    wanted = DEFAULT_SQNR if min_sqnr is None else min_sqnr
    found = find(subject, display, min_sqnr=wanted, parallelism=parallelism)
    for note in found.notes:
        display.console.print(f"Warning: {note}.", markup=False, soft_wrap=True)
    return found


def find(subject: Subject, display: Display, data: str | None = None, **asked: Setting) -> Fitted:
    """Return the formats of a model, chosen on its samples, those of `data`, or its examples."""
    from mase_hw._stages import listening
    from mase_hw.cli._data import load_examples
    from mase_hw.data import Split
    from mase_hw.precision import fit_formats

    given = subject.split if data is None else load_examples(data)
    samples: Record = {}
    if isinstance(given, Split):
        samples = {"data": given}
    elif given is not None:
        samples = {"data": [given]}
    with display.progress(f"formats of {subject.mg.name}") as advance, listening(lambda _: None):
        return fit_formats(subject.mg, **samples, **asked, progress=advance)


def _trained(
    found: Fitted, subject: Subject, display: Display, data: str | None, epochs: int, seed: int
) -> Fitted:
    from mase_hw.cli._data import load_data
    from mase_hw.precision.train import train_formats

    split = load_data(subject, data)
    samples = split.train_inputs, split.train_labels
    held_out = split.validation_inputs, split.validation_labels
    with display.stages(f"training {subject.mg.name}"):
        return train_formats(found, samples, held_out, epochs, seed)


def _show(found: Fitted, display: Display) -> None:
    from rich.table import Table

    from mase_hw.graph.agreement import decibels

    rows = found.rows
    if len(rows) > SHOWN:
        weight = sorted(rows, key=lambda r: -max(r.noise_share or 0.0, r.cost_share or 0.0))[:SHOWN]
        rows = [row for row in rows if row in weight]
    more = len(found.rows) - len(rows)
    table = Table(title=f"Formats of {found.name}" + (f", and {more} more" if more else ""))
    for name in ("node", "operand", "format"):
        table.add_column(name)
    for name in ("bits", "of the error", "of the cost"):
        table.add_column(name, justify="right")
    for row in rows:
        cost = "" if row.cost_share is None else f"{100 * row.cost_share:.1f} %"
        error = "" if row.noise_share is None else f"{100 * row.noise_share:.1f} %"
        table.add_row(row.node, row.operand, row.format, f"{row.bits:g}", error, cost)
    display.console.print(table)
    table = Table(title="Beside uniform formats, on held-out samples")
    table.add_column("formats", no_wrap=True)
    for name in ("agreement", "accuracy", "LUT", "DSP", "BRAM", "memory", "cost"):
        table.add_column(name, justify="right")
    least = found.result.cost.weighed
    for item in [*(x for x in found.front if x.name.startswith("uniform")), found.result]:
        if item is found.result:
            table.add_section()
        reals = [x.sqnr_db for x in item.outputs.values() if x.sqnr_db is not None]
        others = [str(x) for x in item.outputs.values() if x.sqnr_db is None]
        agreement = decibels(min(reals)) if reals else (others or ["trained"])[0]
        table.add_row(
            item.name,
            agreement,
            "" if item.accuracy is None else f"{item.accuracy:.4f}",
            f"{item.cost.lut:,.0f}",
            f"{item.cost.dsp:,g}",
            f"{item.cost.bram:,g}",
            f"{item.cost.memory_bits:,.0f}",
            f"{item.cost.weighed / least:.2f} x",
        )
    display.console.print(table)
