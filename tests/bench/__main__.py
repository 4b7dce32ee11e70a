"""`python -m tests.bench`: the figures, measured here and now, each after its correctness check."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from mase_hw.cli._progress import Display
from mase_hw.errors import ConfigError, MaseError
from mase_hw.registry import nearest
from tests.bench import Row, benchmarks
from tests.bench.base import Benchmark


def bench(
    group: Annotated[
        list[str] | None, typer.Argument(help="Groups of figures. [default: most]")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only the figures of this name; for groups that say so. Repeatable."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Size of the sample; for groups that take one.", min=1)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples, for a look.")] = False,
    keep: Annotated[
        Path | None,
        typer.Option(help="Note figures in this file as they come; those in it are not measured."),
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
) -> None:
    """Measure the figures of tests/bench/README.md, and say which bars are met."""
    display = Display(json_output=json_output)
    names = group or [name for name, item in benchmarks().items() if item.default]
    for name in names:
        if name not in benchmarks():
            raise ConfigError(f"no figures are called {name!r}; {nearest(name, benchmarks())}")
    chosen = {name: benchmarks()[name].only(only) if only else benchmarks()[name] for name in names}
    if samples is not None:
        chosen = {name: benchmark.sampled(samples) for name, benchmark in chosen.items()}
    results: dict[str, list[Row]] = {}
    for name, benchmark in chosen.items():
        table = Table("what", "measured", "bar", "met", title=benchmark.title)
        rows = results.setdefault(name, [])
        with display.stages(benchmark.title):
            for row in _rows(benchmark, keep, quick=quick):
                display.status(f"{row.what}: {row.measured}")
                rows.append(row)
                table.add_row(row.what, row.measured, row.bar, row.verdict)
        display.console.print(table)
    if json_output:
        entries = {name: [vars(row) for row in rows] for name, rows in results.items()}
        typer.echo(json.dumps(entries, indent=2))


def _rows(benchmark: Benchmark, keep: Path | None, *, quick: bool) -> Iterator[Row]:
    """Yield the figures of a group; part by part, where they are kept."""
    if keep is None:
        yield from benchmark.rows(quick=quick)
        return
    known = json.loads(keep.read_text()) if keep.is_file() else {}
    for part in benchmark.parts() or [""]:
        key = f"{benchmark.name} {part}".strip()
        if key not in known:
            measured = benchmark.only([part]) if part else benchmark
            known[key] = [vars(row) for row in measured.rows(quick=quick)]
            keep.write_text(json.dumps(known, indent=2))
        yield from (Row(**row) for row in known[key])


def main() -> None:
    """Run the command; an error of the product is one line."""
    try:
        typer.run(bench)
    except MaseError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
