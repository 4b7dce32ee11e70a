"""What a command shows while it works: a bar for anything over two seconds, on standard error."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from mase_hw._stages import listening

PATIENCE_SECONDS = 2.0


@dataclass
class Display:
    """The terminal, or one JSON object and silence.

    Attributes:
        json_output: print one JSON object instead of a table.
    """

    json_output: Annotated[bool, typer.Option("--json")] = False

    def __post_init__(self) -> None:
        self.errors = Console(stderr=True, quiet=self.json_output, emoji=False)
        self.console = Console(quiet=self.json_output, emoji=False)

    def json(self, entries: Mapping[str, object]) -> None:
        """Print the JSON object, if that is what is printed."""
        if self.json_output:
            typer.echo(json.dumps(entries, indent=2))

    def say(self, line: object) -> None:
        """Print one line as it is."""
        self.console.print(str(line), markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Yield a function of (done, total) that shows a bar once the work has taken a while."""
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.errors,
            transient=True,
        )
        start = time.monotonic()
        task = bar.add_task(what, total=None)
        shown = False

        def advance(done: int, total: int) -> None:
            nonlocal shown
            if not shown and time.monotonic() - start > PATIENCE_SECONDS:
                bar.start()
                shown = True
            bar.update(task, completed=done, total=total)

        try:
            yield advance
        finally:
            if shown:
                bar.stop()

    @contextmanager
    def stages(self, what: str) -> Iterator[Callable[[str], None]]:
        """Yield a function that says what goes on now, in place of what it said before.

        Stages that long steps name (`mase_hw._stages`) are shown in the same way.
        """
        line = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self.errors,
            transient=True,
        )
        task = line.add_task(what, total=None)
        if not self.errors.is_terminal:
            yield lambda stage: None
            return

        def say(stage: str) -> None:
            line.update(task, description=f"{what}: {stage}")

        with line, listening(say):
            yield say

    def status(self, what: str) -> None:
        """Show one line of what goes on."""
        self.errors.print(f"[dim]{what}[/dim]")
