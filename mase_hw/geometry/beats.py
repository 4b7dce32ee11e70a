"""Departures of the beats of a stream: cycles as arrays, one entry a beat."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Cycles = npt.NDArray[np.int64]


def one_per_cycle(offered: Cycles) -> Cycles:
    """Return when beats move that are offered at `offered` and move at most one per cycle."""
    if (offered[1:] > offered[:-1]).all():
        return offered
    order = np.arange(offered.size)
    moved: Cycles = offered - order
    np.maximum.accumulate(moved, out=moved)
    moved += order
    return moved
