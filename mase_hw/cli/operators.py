"""`operators`: what a model may be made of, and how exact nonlinear functions are."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mase_hw.cli._progress import Display

if TYPE_CHECKING:
    from rich.table import Table

    from mase_hw.cli._catalogue import Entry
    from mase_hw.ops._unary_error import UnaryError

# Width and fraction bits of operand and result: a table each up to 12 bits, a polynomial beyond.
ERROR_FORMATS = ((8, 4), (12, 8), (16, 12))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("operators")(operators)


def operators(
    errors: Annotated[
        bool, typer.Option("--errors", help="Compute the errors of the nonlinear functions.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """List the operators with their ATen targets, number formats and modules."""
    display = Display(quiet=json_output)
    if errors:
        measured = _measure(display)
        if json_output:
            typer.echo(json.dumps({"errors": [_description(item) for item in measured]}, indent=2))
        display.console.print(_error_table(measured))
        return
    from mase_hw.cli._catalogue import catalogue

    entries = catalogue()
    if json_output:
        typer.echo(json.dumps({"operators": [asdict(entry) for entry in entries]}, indent=2))
    display.console.print(_table(entries))


def _table(entries: list[Entry]) -> Table:
    from rich.table import Table

    table = Table(title="Operators")
    for column in ("operator", "torch.ops", "formats", "module"):
        table.add_column(column, no_wrap=column in ("operator", "module"), overflow="fold")
    for entry in entries:
        modules = ", ".join(entry.modules) or "(wire)"
        table.add_row(entry.operator, _names(entry), ", ".join(entry.formats), modules)
    return table


def _names(entry: Entry) -> str:
    """Return the targets without their overloads and their in-place twins."""
    names = (target.rpartition(".")[0].removesuffix("_") for target in entry.targets)
    return ", ".join(dict.fromkeys(names))


def _measure(display: Display) -> list[UnaryError]:
    from mase_hw.formats.fixed import Fixed
    from mase_hw.ops._unary_error import error_table, unary_operators

    found: list[UnaryError] = []
    functions = unary_operators()
    with display.progress("comparing every code") as advance:
        for width, frac_width in ERROR_FORMATS:
            number_format = Fixed(width, frac_width)
            for function in functions:
                found += error_table([(number_format, number_format)], [function])
                advance(len(found), len(functions) * len(ERROR_FORMATS))
    return found


def _description(item: UnaryError) -> dict[str, Any]:
    return {**vars(item), "operand": str(item.operand), "result": str(item.result)}


def _error_table(measured: list[UnaryError]) -> Table:
    """Return one row per function and format; a step is one unit in the last place."""
    from rich.table import Table

    columns = ("function", "operand and result", "codes", "worst error (ulp)", "misrounded")
    table = Table(*columns, title="Errors against the real function")
    for item in measured:
        if item.module is None:
            table.add_row(item.operator, str(item.operand), "-", "refused", "-")
            continue
        kind = "all" if item.exhaustive else "sample of"
        table.add_row(
            item.operator,
            str(item.operand),
            f"{kind} {item.codes:,}",
            f"{item.worst_ulps:.3f}",
            f"{item.misrounded:.2%}",
        )
    return table
