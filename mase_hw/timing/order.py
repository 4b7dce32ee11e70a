"""What beats of a node wait for, whatever the timing: the order that its cells keep."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import numpy as np

from mase_hw.cells import Motion, Netlist
from mase_hw.geometry.beats import Cycles


def needs(netlist: Netlist, operand: str, results: Cycles) -> Cycles:
    """Return the last beat of an operand that some results need, or some before; or negative."""
    found = results
    for motion, port, beats in reversed(list(_stages(netlist, operand))):
        found = np.where(found < 0, -1, motion.needs_of(port, beats, np.maximum(found, 0)))
    return found


def room(netlist: Netlist, operand: str, places: Cycles) -> Cycles:
    """Return the result that must have departed before beats of an operand enter, or negative."""
    found = places
    for motion, port, beats in _stages(netlist, operand):
        room = motion.room_of(port, beats, np.clip(found, 0, beats - 1))
        found = np.where(found < 0, -1, room)
    return found


def interleaving(netlist: Netlist, operand: str) -> dict[str, tuple[Cycles, Cycles]]:
    """Beats consumed before and with the beats of an operand that alternates with others.

    Those are the last beat of the other one that is consumed before, and the one in the same cycle,
    negative for none. Where a cell stands before the one that alternates, beats wait in it, and
    the operands themselves do not alternate.
    """
    cell, port = netlist.path(operand)[0]
    found = {}
    for other in netlist.inputs.keys() - {operand}:
        second, entrance = netlist.path(other)[0]
        consumed = cell.motion.interleaving(port, entrance, netlist.inputs[operand].beats)
        if second is cell and consumed is not None:
            found[other] = consumed
    return found


def together(netlist: Netlist, one: str, other: str) -> bool:
    """True if beats of two operands are consumed in the same cycle, each with its own."""
    paths = [netlist.path(operand) for operand in (one, other)]
    met = [cell for cell, _ in paths[0] if any(cell is item for item, _ in paths[1])]
    if not met or netlist.inputs[one].beats != netlist.inputs[other].beats:
        return False
    for path in paths:
        before = list(takewhile(lambda item: item[0] is not met[0], path))
        motion, port = path[len(before)][0].motion, path[len(before)][1]
        apart = motion.taker_of(port, np.zeros(1, dtype=np.int64)) is not None
        if apart or any(cell.motion.lag for cell, _ in before):
            return False
    return True


def _stages(netlist: Netlist, operand: str) -> Iterator[tuple[Motion, str, int]]:
    """Yield the motions from an operand to the result, with their ports and beats."""
    beats = netlist.inputs[operand].beats
    for cell, port in netlist.path(operand):
        for motion in cell.motion.stages:
            yield motion, port, beats
            beats, port = motion.results(beats, port), ""
