"""The external memory in a simulation: its image, its pace, and faults on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mase_hw.emit.design import DesignSummary
from mase_hw.errors import SimulationError
from mase_hw.registry import nearest

PORT = "m_axi"


@dataclass(frozen=True)
class MemoryModel:
    """How the memory behind the port behaves.

    Attributes:
        latency_cycles: from the cycle in which a burst is accepted to its first beat.
        cycles_per_beat: cycles from one beat to the next, at least.
        error_beat: number of the beat, from 0, that comes with an error response; -1 for none.
        answered_beats: beats after which it never answers again; -1 for ever.
    """

    latency_cycles: int
    cycles_per_beat: int = 1
    error_beat: int = -1
    answered_beats: int = -1


@dataclass(frozen=True)
class MemoryState:
    """What the memory port did.

    Attributes:
        bursts: bursts that were asked for.
        beats: beats that moved.
        waiting: bursts whose last beat has not moved.
        asking: a burst waits for the address channel.
    """

    bursts: int
    beats: int
    waiting: int
    asking: bool


def memory_model(
    project: Path, summary: DesignSummary, options: Mapping[str, object] | None
) -> MemoryModel | None:
    """Return the memory of a design, None where everything lies on chip.

    Args:
        project: the emitted folder.
        summary: its `design.json`.
        options: attributes of `MemoryModel` that shall differ from what was predicted with.

    Raises:
        SimulationError: when the image is missing or has another size; for an unknown option.
    """
    memory = summary.external
    if memory is None:
        if options:
            raise SimulationError("this design has no external memory that options could describe")
        return None
    path = project / memory.file
    size = path.stat().st_size if path.is_file() else None
    if size != memory.bytes:
        state = "does not exist" if size is None else f"has {size:,} bytes"
        raise SimulationError(
            f"the image of the external memory, {path}, {state}; {memory.bytes:,} bytes are "
            "needed: emit the project again"
        )
    settings = asdict(MemoryModel(memory.port.latency_cycles, memory.port.cycles_per_beat))
    for key, value in (options or {}).items():
        if key not in settings:
            raise SimulationError(f"memory: unknown option {key!r}; {nearest(key, settings)}")
        least = -1 if settings[key] == -1 else 1
        if type(value) is not int or value < least:
            raise SimulationError(f"memory: {key} is {value!r}; allowed: a number from {least}")
    return MemoryModel(**{**settings, **(options or {})})
