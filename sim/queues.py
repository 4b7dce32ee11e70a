"""Occupancy of a design's queues, from the cycles in which their beats moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mase_hw.emit.design import DesignSummary
from mase_hw.sim.engine import Recording, RunResult
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


def queue_states(summary: DesignSummary, result: RunResult) -> list[str]:
    """Say of every queue how full it is at the end of a run, and the two ends; full ones first.

    Both of its streams must have been recorded. A full one accepts nothing, whatever its depth.
    """
    lines = []
    for queue in summary.queues:
        entering, leaving = result.streams[queue.entering], result.streams[queue.leaving]
        held = len(entering.cycles) - len(leaving.cycles)
        blocked = entering.valid and not entering.ready
        level = "full" if blocked else "not full" if held else "empty"
        lines.append(
            f"{queue.node} is {level} ({held} of {queue.depth} beats): from {queue.producer} "
            f"({queue.entering} {_handshake(entering)}) to {queue.consumer} "
            f"({queue.leaving} {_handshake(leaving)})"
        )
    return sorted(lines, key=lambda line: " is full " not in line)


def _handshake(stream: Recording) -> str:
    return f"valid {int(stream.valid)}, ready {int(stream.ready)}"


def queue_streams(summary: DesignSummary) -> list[str]:
    """Return the names of the streams inside that enter and leave the queues."""
    ports = {stream.name for stream in (*summary.inputs, *summary.outputs)}
    ends = [name for queue in summary.queues for name in (queue.entering, queue.leaving)]
    return [name for name in ends if name not in ports]


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
