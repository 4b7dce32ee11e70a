"""`operators`: what a model may be made of, and how exact nonlinear functions are."""

from __future__ import annotations

from string import ascii_uppercase
from typing import TYPE_CHECKING

from mase_hw.cli._options import MEASURE, command
from mase_hw.cli._progress import Display

if TYPE_CHECKING:
    from rich.table import Table

    from mase_hw.approximation.errors import FunctionError
    from mase_hw.ops import Operator

# Width and fraction bits of operand and result: a table each up to 12 bits, a polynomial beyond.
ERROR_FORMATS = ((8, 4), (12, 8), (16, 12))


@command(MEASURE)
def operators(*, errors: bool = False, display: Display) -> None:
    """List the operators that have hardware, with their ATen targets and number formats.

    Options:
        errors: compute the errors of the nonlinear functions.
    """
    if errors:
        measured = _measure(display)
        display.json({"errors": [_description(item) for item in measured]})
        display.console.print(_error_table(measured))
        return
    from mase_hw.ops import carried
    from mase_hw.ops import operators as registered

    # Those with a role are what the flow itself inserts.
    public = [operator for operator in registered().values() if operator.role is None]
    entries = [
        {
            "operator": item.name,
            "targets": item.targets,
            "formats": item.formats,
            "carried": carried(item),
        }
        for item in public
    ]
    display.json({"operators": entries})
    _print_table(display, public)


def _print_table(display: Display, listed: list[Operator]) -> None:
    """Print the operators; sets of formats that many share have a letter, explained below."""
    from rich.table import Table

    sets = dict.fromkeys(_formats(item) for item in listed if item.formats)
    letters = dict(zip(sets, ascii_uppercase, strict=False))
    table = Table(title="Operators")
    table.add_column("operator", no_wrap=True)
    table.add_column("torch.ops", overflow="fold")
    table.add_column("formats", justify="center")
    for item in listed:
        table.add_row(item.name, _names(item.targets), letters.get(_formats(item), "-"))
    display.console.print(table)
    for formats, letter in letters.items():
        own, carried = (", ".join(names) for names in formats)
        text = f"{own}; through exact values {carried}" if carried else own
        display.say(f"{letter}: {text}")
    display.say("-: those of the operators that it is made of")


def _formats(item: Operator) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the formats that an operator computes in, and those whose exact values it takes."""
    from mase_hw.ops import carried

    return item.formats, carried(item)


def _names(targets: tuple[str, ...]) -> str:
    """Return targets without their overloads and their in-place twins."""
    names = (target.rpartition(".")[0].removesuffix("_") for target in targets)
    return ", ".join(dict.fromkeys(names))


def _measure(display: Display) -> list[FunctionError]:
    from mase_hw.formats.fixed import Fixed
    from mase_hw.ops import unary_operators

    errors: list[FunctionError] = []
    functions = unary_operators()
    with display.progress("comparing every code") as advance:
        for width, frac_width in ERROR_FORMATS:
            number_format = Fixed(width, frac_width)
            for function in functions:
                errors.append(function.error(function.call(number_format, number_format)))
                advance(len(errors), len(functions) * len(ERROR_FORMATS))
    return errors


def _description(item: FunctionError) -> dict[str, object]:
    return {**vars(item), "operand": str(item.operand), "result": str(item.result)}


def _error_table(measured: list[FunctionError]) -> Table:
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
