"""How full the queues of a design became, from the cycles in which their beats moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mase_hw.emit.design import DesignSummary
from mase_hw.sim.engine import RunResult
from mase_hw.sim.layout import Integers


@dataclass(frozen=True)
class QueueMark:
    """One queue.

    Attributes:
        node: graph node.
        depth: beats it holds.
        high_water: the most beats it held.
    """

    node: str
    depth: int
    high_water: int


def queue_streams(summary: DesignSummary) -> list[str]:
    """Return the names of the streams that enter and leave the queues."""
    return [name for queue in summary.queues for name in (queue.entering, queue.leaving)]


def queue_marks(summary: DesignSummary, result: RunResult) -> tuple[QueueMark, ...]:
    """Return the marks of the queues both of whose streams were recorded."""
    return tuple(
        QueueMark(
            queue.node,
            queue.depth,
            _most(result.streams[queue.entering].cycles, result.streams[queue.leaving].cycles),
        )
        for queue in summary.queues
        if {queue.entering, queue.leaving} <= set(result.streams)
    )


def _most(entered: Integers, left: Integers) -> int:
    """Return the most beats inside after any cycle."""
    inside = np.arange(1, len(entered) + 1) - np.searchsorted(left, entered, side="right")
    return int(inside.max(initial=0))
