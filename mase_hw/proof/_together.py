"""Proofs beside each other, one on each processor, each in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from types import FrameType

from mase_hw._processes import tool_group
from mase_hw.errors import ProofError
from mase_hw.proof._report import ProofRow

Advance = Callable[[int, int], None]
# A process that ends early removes its files first.
ENDS = (signal.SIGINT, signal.SIGTERM)


def together(
    proofs: Sequence[Callable[[], Iterable[ProofRow]]], progress: Advance | None = None
) -> list[ProofRow]:
    """Return the rows of all proofs, in their order.

    Args:
        proofs: each yields its rows.
        progress: called with how many are done, and how many there are.

    Raises:
        ProofError: where a proof is ended from outside; else what the first one raises that fails.
    """
    # What a proof is given need not be written and read again.
    context = get_context("fork")
    waiting = iter(enumerate(proofs))
    running: dict[Connection, tuple[int, ForkProcess]] = {}
    rows_of: dict[int, list[ProofRow]] = {}
    if progress:
        progress(0, len(proofs))
    try:
        while len(rows_of) < len(proofs):
            for number, proof in islice(waiting, (os.cpu_count() or 1) - len(running)):
                here, there = context.Pipe(duplex=False)
                process = context.Process(target=_prove, args=(proof, there, tool_group()))
                running[here] = number, process
                process.start()
                there.close()
            ready = wait(list(running))
            for here in [item for item in running if item in ready]:
                number, process = running[here]
                rows_of[number] = _rows(here)
                process.join()
                del running[here]
                if progress:
                    progress(len(rows_of), len(proofs))
    finally:
        for _, process in running.values():
            process.terminate()
        for here, (_, process) in running.items():
            process.join()
            here.close()
    return [row for number in range(len(proofs)) for row in rows_of[number]]


def _prove(proof: Callable[[], Iterable[ProofRow]], there: Connection, group: int) -> None:
    os.setpgid(0, group)
    for number in ENDS:
        signal.signal(number, _end)
    try:
        rows: list[ProofRow] | Exception = list(proof())
    except Exception as error:
        rows = error
    there.send(rows)


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(1)


def _rows(here: Connection) -> list[ProofRow]:
    try:
        rows: list[ProofRow] | Exception = here.recv()
    except EOFError:
        raise ProofError(
            "the process of a proof was killed, perhaps for lack of memory; try fewer --samples"
        ) from None
    finally:
        here.close()
    if isinstance(rows, Exception):
        raise rows
    return rows
