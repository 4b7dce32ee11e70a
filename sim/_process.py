"""Running a simulator while a progress bar follows its `progress N` lines."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from mase_hw._processes import tool_group
from mase_hw.errors import SimulationError, ToolError
from mase_hw.sim.checks import said_of

SHOW_AFTER_SECONDS = 2.0
KEPT_LINES = 30


class Meter:
    """A progress bar on standard error that appears when a job has taken two seconds."""

    def __init__(self, title: str, total: int | None) -> None:
        self._title, self._total = title, total
        self._start = time.monotonic()
        self._done = 0
        self._bar: Progress | None = None

    def update(self, done: int | None = None) -> None:
        """Report the state, or only that time passes."""
        self._done = self._done if done is None else done
        if self._bar is None and time.monotonic() - self._start > SHOW_AFTER_SECONDS:
            columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
            console = Console(file=sys.stderr)
            if not console.is_terminal:
                return
            self._bar = Progress(*columns, console=console, transient=True)
            self._bar.add_task(self._title, total=self._total)
            self._bar.start()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)

    def stop(self) -> None:
        """Remove the bar from the terminal."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show a bar of unknown length while the body runs, once it has taken two seconds."""
    meter, running = Meter(title, None), True

    def tick() -> None:
        while running:
            meter.update()
            time.sleep(0.1)

    thread = Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        running = False
        thread.join()
        meter.stop()


def run_simulator(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], total: int
) -> tuple[int, list[str]]:
    """Run `command` in `folder`; return its exit status, and what it printed: its last lines.

    The first line of each check that failed comes before them.

    Args:
        command: the simulator.
        folder: where memory images are found.
        environment: all its variables.
        total: the last number of its `progress N` lines.

    Raises:
        ToolError: when it cannot be started.
        SimulationError: when it misses a memory image, of which Verilator only warns.
    """
    meter, lines = Meter("Simulating", total), deque[str](maxlen=KEPT_LINES)
    reports: dict[tuple[str, str], str] = {}
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=tool_group(),
        )
    except OSError as error:
        raise ToolError(f"{command[0]} cannot be run: {error}") from error
    with process:
        try:
            for line in process.stdout or ():
                word, _, number = line.strip().partition(" ")
                if word == "progress" and number.isdigit():
                    meter.update(int(number))
                elif said := said_of(line):
                    reports.setdefault(said, line.rstrip())
                else:
                    lines.append(line.rstrip())
        except BaseException:
            process.kill()
            raise
        finally:
            meter.stop()
    for line in lines:
        if "$readmem" in line:
            raise SimulationError(f"a memory image cannot be read: {line}")
    return process.returncode, [*reports.values(), *lines]


def died(engine: str, status: int, lines: Sequence[str]) -> SimulationError:
    """Return the error of a simulator that ended without a result."""
    shown = "\n".join(lines) or "it printed nothing"
    return SimulationError(f"the {engine} simulation ended with exit status {status}:\n{shown}")
