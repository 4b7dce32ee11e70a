"""`fit`: the number formats that keep MODEL for the least hardware."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mase_hw._kinds import Record, Setting
from mase_hw.cli._files import claim
from mase_hw.cli._options import (
    CHOICES,
    NO_RATE,
    Config,
    Data,
    Decibels,
    Examples,
    Model,
    Output,
    Parallelism,
    Rate,
    Weights,
    command,
)
from mase_hw.cli._progress import Display

if TYPE_CHECKING:
    from mase_hw.cli._model import Subject
    from mase_hw.precision import Fitted

# Rows that are printed; all of them are in the file.
SHOWN = 24
DEFAULT_SQNR = 30.0


@command(CHOICES)
def fit(
    model: Model,
    *,
    inputs: Examples = None,
    output: Output = None,
    min_sqnr: Decibels = None,
    max_drop: Annotated[float | None, typer.Option(metavar="POINTS")] = None,
    max_lut: float | None = None,
    max_bram: float | None = None,
    formats: str | None = None,
    config: Config = None,
    parallelism: Parallelism = None,
    rate: Rate,
    weights: Weights = None,
    data: Data = None,
    train: Annotated[int | None, typer.Option(min=1, metavar="EPOCHS")] = None,
    prepare: bool = True,
    seed: int = 0,
    display: Display,
) -> None:
    """Find number formats that keep the accuracy of MODEL for the least hardware.

    Writes formats.toml, which emit-verilog --config takes, formats.csv and a figure of the front.
    Without a bound of what may be lost, the best agreement within --max-lut and --max-bram.

    Options:
        output: folder to write (default: build/NAME-formats).
        min_sqnr: signal over error that every output must keep.
        max_drop: accuracy that may be lost, in percentage points.
        max_lut: look-up tables, at most.
        max_bram: block RAMs, at most.
        formats: format families to try, with commas between (default: all).
        rate: with --parallelism auto
        train: train through the rounding of the formats found, and of cheaper ones.
        prepare: try ranges, codes, biases and channel scales fitted to data.
        seed: seed of the measurement of errors.
    """
    from mase_hw.cli._model import load_subject, read_config
    from mase_hw.precision.report import FILES, WEIGHTS, head, to_dict, write

    tables = read_config(config, parallelism, rate)
    if parallelism is None and rate != NO_RATE and not isinstance(tables.parallelism, dict):
        tables = replace(tables, parallelism="auto")
    subject = load_subject(model, display, weights, inputs)
    folder = output or Path("build") / f"{subject.mg.name}-formats"
    claim(folder, FILES)
    settings = tables.settle(subject)
    goal = {"min_sqnr": min_sqnr, "max_drop": max_drop, "max_lut": max_lut, "max_bram": max_bram}
    fitted = find(
        subject,
        display,
        data,
        **goal,
        formats=None if formats is None else [word.strip() for word in formats.split(",")],
        parallelism=settings.hardware.parallelism,
        seed=seed,
        prepare=prepare,
        output=folder,
    )
    if train is not None:
        fitted = _trained(fitted, subject, display, data, train, seed)
    path = write(fitted, folder)
    display.json({**to_dict(fitted), "folder": str(folder)})
    _show(fitted, display)
    for line in head(fitted):
        display.say(line)
    command = f"mase-hw emit-verilog {model} --config {path}"
    command += f" --weights {weights}" if weights is not None else ""
    if fitted.has_own_weights:
        command = f"mase-hw emit-verilog {model} --weights {folder / WEIGHTS}"
    display.say(f"{command} --simulate")


def automatic(
    subject: Subject,
    display: Display,
    word: str,
    config: object,
    parallelism: object,
    min_sqnr: float | None,
    agreement: str,
) -> Fitted:
    """Return the formats that keep a model, for `--formats auto`.

    Raises:
        ConfigError: for another word, formats that a file gives, or another agreement than that of
            the worst channel.
    """
    from mase_hw.errors import ConfigError
    from mase_hw.graph.agreement import CHANNEL, check_agreement

    if word != "auto":
        raise ConfigError(f"--formats is {word!r}; allowed: auto")
    if config is not None:
        raise ConfigError(
            "--formats auto finds number formats, and --config gives them, too; give one of them"
        )
    if check_agreement(agreement) != CHANNEL:
        raise ConfigError(
            f"--formats auto finds formats by the worst channel, not by --agreement {agreement}; "
            "leave that out, or give formats with --config"
        )
    wanted = DEFAULT_SQNR if min_sqnr is None else min_sqnr
    fitted = find(subject, display, min_sqnr=wanted, parallelism=parallelism)
    for note in fitted.notes:
        display.say(f"Warning: {note}.")
    return fitted


def find(subject: Subject, display: Display, data: str | None = None, **asked: Setting) -> Fitted:
    """Return the formats of a model, chosen on its samples, those of `data`, or its examples."""
    from mase_hw._stages import listening
    from mase_hw.cli._data import load_examples
    from mase_hw.data import Split
    from mase_hw.precision import fit_formats

    examples = subject.split if data is None else load_examples(data)
    samples: Record = {}
    if isinstance(examples, Split):
        samples = {"data": examples}
    elif examples is not None:
        samples = {"data": [examples]}
    with display.progress(f"formats of {subject.mg.name}") as advance, listening(lambda _: None):
        return fit_formats(subject.mg, **samples, **asked, progress=advance)


def _trained(
    fitted: Fitted, subject: Subject, display: Display, data: str | None, epochs: int, seed: int
) -> Fitted:
    from mase_hw.cli._model import load_data
    from mase_hw.precision.train import train_formats

    split = load_data(subject, data)
    samples = split.train_inputs, split.train_labels
    held_out = split.validation_inputs, split.validation_labels
    with display.stages(f"training {subject.mg.name}"):
        return train_formats(fitted, samples, held_out, epochs, seed)


def _show(fitted: Fitted, display: Display) -> None:
    from rich.table import Table

    from mase_hw.graph.agreement import decibels

    rows = fitted.rows
    if len(rows) > SHOWN:
        weight = sorted(rows, key=lambda r: -max(r.noise_share or 0.0, r.cost_share or 0.0))[:SHOWN]
        rows = [row for row in rows if row in weight]
    more = len(fitted.rows) - len(rows)
    table = Table(title=f"Formats of {fitted.name}" + (f", and {more} more" if more else ""))
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
    least = fitted.result.cost.weighed
    for item in [*(x for x in fitted.front if x.name.startswith("uniform")), fitted.result]:
        if item is fitted.result:
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
