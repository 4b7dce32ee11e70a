"""Bounds of the cycles that a cell takes, for progress checks of simulations and proofs."""

from __future__ import annotations

import numpy as np

from mase_hw.cells import Cell
from mase_hw.cells.cat import Merge

# Beats of an inference from which on nobody counts.
MOST_BEATS = 1 << 16


def streams(cell: Cell) -> list[str]:
    """Return the inputs whose motion is known: those that move with the first, or in turn."""
    given = {port: item.beats for port, item in cell.inputs.items() if item.beats}
    first = next(iter(given.values()))
    alternate = isinstance(cell.motion, Merge)
    return [port for port, beats in given.items() if beats == first or alternate]


def progress_cycles(cell: Cell) -> int | None:
    """Return within how many cycles of the last beat of an inference the next result is offered.

    A bound for each result: that of all of an inference that meets an idle cell. None where no
    beats enter, where results go to several consumers, where streams inside are joined, or where an
    inference is very long.
    """
    ports = [*cell.inputs.values(), *cell.outputs.values()]
    if (
        not any(port.beats for port in cell.inputs.values())
        or len(cell.outputs) != 1
        or not all(port.fields for port in ports)
        or max(port.beats for port in ports) > MOST_BEATS
    ):
        return None
    come = {port: np.arange(cell.inputs[port].beats) for port in streams(cell)}
    # Of motions one behind another, the one that takes the inputs.
    motion = cell.motion.stages[0]
    if isinstance(motion, Merge) and come.keys() != motion.places.keys():
        # It joins other streams than its own inputs.
        return None
    return int(cell.motion.offered(come).max()) + 1
