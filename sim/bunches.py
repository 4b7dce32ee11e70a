"""The interval of a design whose layers share the port of an external memory.

Layers take turns at the port, so inferences end in bunches: some early, the next ones late, over
and over. Before, buffers fill; the last inferences are early, as nothing behind them asks for
words. An interval therefore lies between two ends that are equally late, one in each of two windows
in the middle of the run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# From here on the windows are longer than buffers take to fill.
LEAST_INFERENCES = 32
Ends = NDArray[np.int64]


def between_bunches(ended: Ends, latency_cycles: int) -> float | None:
    """Return the cycles between ends of inferences; None where they are too few.

    Args:
        ended: the cycle in which each inference ended.
        latency_cycles: of the first one.
    """
    if len(ended) < LEAST_INFERENCES:
        return None
    mean = (ended[-1] - ended[0]) / (len(ended) - 1)
    late = ended - mean * np.arange(len(ended))
    first, second = (
        window[int(late[window].argmax())] for window in _windows(ended, latency_cycles)
    )
    return float((ended[second] - ended[first]) / (second - first))


def keep_interval(ended: Ends, latency_cycles: int, interval_cycles: int) -> bool:
    """True if inferences are not later, nor earlier, in one window than in the other."""
    late = ended - ended[0] - interval_cycles * np.arange(len(ended))
    first, second = (late[window] for window in _windows(ended, latency_cycles))
    drifts = first.max() - second.max(), first.min() - second.min()
    return all(abs(int(drift)) <= 1 for drift in drifts)


def _windows(ended: Ends, latency_cycles: int) -> tuple[Ends, Ends]:
    """Return the numbers of the inferences of two windows, before those that end undisturbed."""
    mean = max(1.0, float(ended[-1] - ended[0]) / (len(ended) - 1))
    end = len(ended) - min(len(ended) // 4, int(latency_cycles / mean) + 2)
    third = end // 3
    numbers = np.arange(end)
    return numbers[third : 2 * third], numbers[2 * third :]
