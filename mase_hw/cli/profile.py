"""`mase-hw profile`: measure compiling, attention, MXINT8 and formats of a model, and kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mase_hw.cli._files import claim
from mase_hw.cli._options import APP, MEASURE, command

if TYPE_CHECKING:
    from mase_hw.kernels.profile import Report, Table

app = typer.Typer(
    no_args_is_help=True, help="Measure time and memory of a model, or of the kernels."
)
APP.add_typer(app, name="profile", rich_help_panel=MEASURE)

MODEL_HELP = (
    "A registered model such as digits-mlp, minilm, smollm2-135m, a folder or hub id of "
    "transformers, or file.py:factory (runs the file)."
)
Model = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Batches = Annotated[str, typer.Option(help="Batch sizes, with commas between.")]
Length = Annotated[int, typer.Option(min=1, help="Tokens of a sequence.")]
_SPREAD = "_spread"


@dataclass(frozen=True)
class Run:
    """Run of a measurement.

    Attributes:
        threads: CPU threads; 0 leaves the choice to torch.
        out: folder to write: CSV files and figures.
    """

    threads: Annotated[int, typer.Option(min=0)] = 0
    out: Annotated[Path, typer.Option("--output", "-o", "--out")] = Path("profile")


@command(app=app)
def torch_compile(
    model: Model,
    *,
    device: Device = "cpu",
    batch_sizes: Batches = "1,2,4,8,16,32,64",
    length: Length = 64,
    run: Run,
) -> None:
    """Eager against torch.compile: first call, steady state, break-even, graph breaks."""
    with _run(run, "torch_compile") as save:
        from mase_hw.kernels.profile.torch_compile import profile_torch_compile

        save(profile_torch_compile(model, device, _integers(batch_sizes), length))


@command(app=app)
def sdpa(
    model: Model,
    *,
    device: Device = "cpu",
    lengths: str = "64,128,256,512,1024,2048",
    run: Run,
) -> None:
    """Naive against fused attention: time, peak memory, which backend ran.

    Options:
        lengths: sequence lengths, with commas between.
    """
    with _run(run, "sdpa") as save:
        from mase_hw.kernels.profile.sdpa import profile_sdpa

        save(profile_sdpa(model, device, _integers(lengths)))


@command(app=app)
def mxint8(
    model: Model,
    *,
    device: Device = "cpu",
    batch_sizes: Batches = "1,4,16",
    length: Length = 64,
    embeddings: bool = True,
    quantize_values: Annotated[bool, typer.Option()] = False,
    run: Run,
) -> None:
    """Float against MXINT8: speed, error, and the memory term by term.

    Options:
        embeddings: also convert embeddings.
        quantize_values: also round activations.
    """
    with _run(run, *(f"mxint8{part}" for part in ("", "_speed", "_memory", "_error"))) as save:
        from mase_hw.kernels.profile.mxint8 import profile_mxint8

        batches = _integers(batch_sizes)

        save(profile_mxint8(model, device, batches, length, embeddings, quantize_values))


@command(app=app)
def formats(model: Model, *, device: Device = "cpu", length: Length = 64, run: Run) -> None:
    """Every number format on the model's weights: bits, error, cost of rounding."""
    with _run(run, "formats") as save:
        from mase_hw.kernels.profile.formats import profile_formats

        save(profile_formats(model, device, length=length))


@command(app=app)
def kernels(*, quick: bool = False, run: Run) -> None:
    """The MXINT8 kernels of this machine against its memory, torch and torch.compile.

    Options:
        quick: fewer samples, for a first look.
    """
    with _run(run, "kernels") as save:
        from mase_hw.kernels.profile.kernels import profile_kernels

        save(profile_kernels(quick=quick))


def _integers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise typer.BadParameter(f"{text!r}; allowed: positive integers separated by commas")
    return numbers


@contextmanager
def _run(run: Run, *names: str) -> Iterator[Callable[[Report], None]]:
    """Yield a function that takes the report, which is printed and saved then."""
    from rich.console import Console

    console = Console(emoji=False)
    reports: list[Report] = []
    claim(run.out, [f"{name}.{kind}" for name in names for kind in ("csv", "png", "txt")])
    with console.status("measuring"):
        if run.threads:
            import torch

            torch.set_num_threads(run.threads)
        yield reports.append
    (report,) = reports
    for table in report.tables:
        console.print(_rich_table(table))
    for note in report.notes:
        console.print(f"- {note}", highlight=False)
    console.print(", ".join(f"{key}: {value}" for key, value in report.setting.items()))
    for path in report.save(run.out):
        console.print(f"wrote {path}", highlight=False)


def _rich_table(table: Table) -> object:
    from rich import box
    from rich.table import Table as RichTable

    rich_table = RichTable(title=table.title, box=box.SIMPLE_HEAD, pad_edge=False)
    shown = [column for column in table.columns if _SPREAD not in column]
    for column in shown:
        rich_table.add_column(column.replace("_", " "), overflow="fold")
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        rich_table.add_row(*(_with_spread(column, cells) for column in shown))
    return rich_table


def _with_spread(column: str, cells: Mapping[str, object]) -> str:
    """Return a median with the spread that stands in a column of its own in the CSV file."""
    stem, _, unit = column.rpartition("_")
    spread = cells.get(f"{stem}{_SPREAD}_{unit}")
    return _cell(cells[column]) + (f" ±{_cell(spread)}" if spread is not None else "")


def _cell(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, int):
        return f"{cell:,}"
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
