"""A queue of beats, inserted where streams meet after paths of different delay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from mase_hw.ops._base import Call, Cycles, Hardware, Operator, Reference, one_per_cycle, queue_room
from mase_hw.ops._library import define_queue

define_queue("fifo")


class Fifo(Operator):
    """The identity, `depth` beats deep."""

    name: ClassVar[str] = "fifo"
    targets: ClassVar[tuple[str, ...]] = ("mase.fifo.default",)
    keeps_format: ClassVar[bool] = True
    casts: ClassVar[bool] = False
    role: ClassVar[str | None] = "fifo"

    def problems(self, call: Call) -> list[str]:
        """None: every format is carried as it is."""
        return []

    def reference(self, call: Call) -> Reference:
        """Return the identity."""
        return _same

    def hardware(self, call: Call) -> Hardware:
        """Return the queue."""
        return Hardware("mase_stream_fifo", queue_depth=int(call.attributes["depth"]))

    def schedule(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """A beat is offered the cycle after it entered."""
        return one_per_cycle(arrivals["data_in_0"]) + 1

    def room(self, call: Call, used: Mapping[str, Cycles], delay: int) -> dict[str, Cycles]:
        """As many beats as it holds."""
        depth = int(call.attributes["depth"])
        return {"data_in_0": queue_room(call.result.beats, depth)}

    def operations(self, call: Call) -> int:
        """None."""
        return 0


def _same(codes: Tensor) -> Tensor:
    return codes
