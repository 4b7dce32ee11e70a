"""`search`: number formats, parallelism, sparsity and architecture for a model, by trial."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw._kinds import Record
from mase_hw.cli._options import (
    CHOICES,
    Count,
    Data,
    Examples,
    Model,
    OptionalCount,
    Output,
    Weights,
    command,
)
from mase_hw.cli._progress import Display

if TYPE_CHECKING:
    from mase_hw.search import SearchResult


SHOWN_REASONS = 3


@command(CHOICES)
def search(
    model: Model,
    *,
    inputs: Examples = None,
    config: Path,
    output: Output = None,
    weights: Weights = None,
    data: Data = None,
    storage: str | None = None,
    workers: Count = 1,
    dask: str | None = None,
    trials: OptionalCount = None,
    seed: int | None = None,
    samples: OptionalCount = None,
    display: Display,
) -> None:
    """Search number formats and parallelism; emit-verilog --config takes the result.

    Options:
        config: TOML file with space, objectives, sampler and trials.
        output: folder to write (default: build/NAME-search).
        storage: SQLite file or SQLAlchemy URL (default: OUTPUT/study.db).
        workers: processes on this machine; with --dask, on all.
        dask: address of a Dask scheduler, such as tcp://HOST:8786.
        trials: trials of the whole study.
        seed: seed of the sampler.
        samples: validation samples per trial (default: all).
    """
    from mase_hw._config_file import read_toml
    from mase_hw.cli._model import load_data, load_subject
    from mase_hw.search import Samples, study

    tables: Record = read_toml(config)
    tables |= {
        key: value for key, value in (("trials", trials), ("seed", seed)) if value is not None
    }
    subject = load_subject(model, display, weights, inputs)
    drawn = Samples()
    if subject.split is not None or data is not None:
        drawn = Samples.of(load_data(subject, data), samples)
    folder = output or Path("build") / f"{subject.mg.name}-search"
    with display.progress(f"searching {subject.mg.name}") as advance:
        result = study.search(
            subject.mg,
            tables,
            output=folder,
            samples=drawn,
            storage=storage,
            workers=workers,
            dask=dask,
            builder=None if Path(model).suffix in (".pt2", ".mase") else model,
            progress=advance,
        )
    display.json(_description(result))
    _show(result, model, weights, display)


def _description(result: SearchResult) -> dict[str, object]:
    return {
        "trials": result.trials,
        "failed": {str(number): error for number, error in result.failed.items()},
        "best": [
            {"trial": item.number, **item.metrics, "without_hardware": list(item.without_hardware)}
            for item in result.best
        ],
        "config": str(result.folder / "best.toml"),
        "storage": result.storage,
    }


def _show(result: SearchResult, model: str, weights: Path | None, display: Display) -> None:
    from rich.table import Table

    table = Table(title=f"{result.trials} trials, {len(result.failed)} failed")
    names = list(result.best[0].metrics)
    for name in ("trial", *names):
        table.add_column(name, justify="right")
    for item in result.best:
        table.add_row(str(item.number), *(f"{item.metrics[name]:.6g}" for name in names))
    display.console.print(table)
    command = f"mase-hw emit-verilog {model} --config {result.folder / 'best.toml'}"
    best = result.folder / "best.mase"
    weights = best if best.is_file() else weights
    command += f" --weights {weights}" if weights is not None else ""
    lacking = result.best[0].without_hardware
    for reason in lacking[:SHOWN_REASONS]:
        display.say(f"no hardware: {reason}")
    if len(lacking) > SHOWN_REASONS:
        display.console.print(f"and {len(lacking) - SHOWN_REASONS} more without hardware")
    if not lacking:
        display.say(f"{command} --simulate")
