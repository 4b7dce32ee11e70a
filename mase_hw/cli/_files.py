"""Files of a command: what it reads is kept, and where it writes no other run does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from mase_hw._results import inputs_kept, result_folder

# Parameters that name what a command writes; files that others name are its inputs.
OUTPUTS = ("output", "outputs", "out", "bitstream")
_HELD = ContextVar[ExitStack]("_HELD")


def keep_inputs(app: typer.Typer) -> None:
    """Let no command of an application write over what it reads."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            keep_inputs(group.typer_instance)
    for command in app.registered_commands:
        if command.callback is not None and not hasattr(command.callback, "__wrapped__"):
            command.callback = _keeping_inputs(command.callback)


def claim(folder: Path, names: Iterable[str] = ()) -> None:
    """Claim a folder for the files of this command, until it ends, see `result_folder`."""
    _HELD.get().enter_context(result_folder(folder, names))


def _keeping_inputs(command: Callable[..., object]) -> Callable[..., object]:
    @wraps(command)
    def run(**values: Any) -> object:
        words = [str(value) for name, value in values.items() if name not in OUTPUTS]
        # Of `file.py:factory`, the file.
        paths = [Path(part) for word in words for part in (word, word.rpartition(":")[0])]
        with ExitStack() as held:
            held.enter_context(inputs_kept(paths))
            token = _HELD.set(held)
            held.callback(_HELD.reset, token)
            return command(**values)

    return run
