"""The commands `mase-hw` and `emit-verilog`; every file of this folder adds its commands.

Heavy imports happen inside the commands, so that help is printed at once.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer

from mase_hw import __version__
from mase_hw._cache import cache_folder
from mase_hw.cli._options import APP
from mase_hw.errors import CacheError, MaseError

INTERRUPTED = 130


def build_app() -> typer.Typer:
    """Return the application with the commands of every file of this folder."""
    for module_info in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module_info.name}")
    APP.registered_commands.sort(key=lambda item: getattr(item.callback, "__module__", ""))

    @APP.callback()
    def root(
        version: Annotated[
            bool,
            typer.Option("--version", is_eager=True, callback=_version, help="Print the version."),
        ] = False,
    ) -> None:
        """Keep a single command a subcommand."""

    return APP


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"mase-hw {__version__}")
        raise typer.Exit()


def main() -> None:
    """Run `mase-hw` with the arguments of the process."""
    _run(build_app())


def emit_verilog_main() -> None:
    """Run `emit-verilog`: the subcommand of that name on its own."""
    importlib.import_module(f"{__name__}.emit_verilog")
    _run(APP)


def _run(app: Callable[[], None]) -> None:
    with suppress(CacheError):
        # Else torch makes a folder in that of temporary files, and leaves it.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder("torch")))
    try:
        _call(app)
    except MaseError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
    except SystemExit as end:
        # Typer ends so, and silently, on a keyboard interrupt.
        if end.code == INTERRUPTED:
            sys.stderr.write("interrupted\n")
        raise


def _call(app: Callable[[], None]) -> None:
    """Run a command; a fault of an operator's own file is named, when there is one.

    Raises:
        MaseError: for everything that is raised on purpose, and such a fault.
    """
    try:
        app()
    except MaseError:
        raise
    except Exception:
        from mase_hw.graph.source import naming_units

        with naming_units():
            raise
