"""Which events wait for which, and those that wait for each other."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
from torch.fx import Node

from mase_hw.geometry.beats import Cycles


@dataclass
class Waits:
    """Events, and which of them waits for which.

    Attributes:
        runs: the first event of each run of events, and the node that it is of.
        waiting: events that wait.
        awaited: for each of them, what it waits for.
        count: number of events.
    """

    runs: list[tuple[int, Node]] = field(default_factory=list)
    waiting: list[Cycles] = field(default_factory=list)
    awaited: list[Cycles] = field(default_factory=list)
    count: int = 0

    def add(self, node: Node, events: int) -> int:
        """Add a run of events of a node; return the first."""
        self.runs.append((self.count, node))
        self.count += events
        return self.count - events

    def order(self, first_waiting: int, first_awaited: int, awaited: Cycles) -> None:
        """Let events of a run wait for those of another; a negative number is none."""
        (waiting,) = np.nonzero(awaited >= 0)
        self.waiting.append(waiting + first_waiting)
        self.awaited.append(awaited[waiting] + first_awaited)

    def node(self, event: int) -> Node:
        """Return the node that an event is of."""
        return self.runs[bisect_right(self.runs, event, key=itemgetter(0)) - 1][1]

    def circuit(self) -> list[int]:
        """Return events that wait for each other in turn, none where everything can move."""
        waiting, awaited = np.concatenate(self.waiting), np.concatenate(self.awaited)
        order = np.argsort(awaited, kind="stable")
        followers = waiting[order].tolist()
        starts = np.searchsorted(awaited[order], np.arange(self.count + 1)).tolist()
        left = np.bincount(waiting, minlength=self.count).tolist()
        free = [event for event, number in enumerate(left) if not number]
        moved = 0
        while free:
            event = free.pop()
            moved += 1
            for follower in followers[starts[event] : starts[event + 1]]:
                left[follower] -= 1
                if not left[follower]:
                    free.append(follower)
        if moved == self.count:
            return []
        blocked = {
            event: other
            for event, other in zip(waiting.tolist(), awaited.tolist(), strict=True)
            if left[other]
        }
        places: dict[int, int] = {}
        event = next(iter(blocked))
        while event not in places:
            places[event] = len(places)
            event = blocked[event]
        return list(places)[places[event] :]
