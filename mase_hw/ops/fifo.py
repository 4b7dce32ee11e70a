"""A queue of beats, inserted where streams meet after paths of different delay."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from mase_hw.cells import Netlist
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.ops._base import Call, Operator, Reference
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

    def hardware(self, call: Call) -> Netlist:
        """Return the queue."""
        (port,) = call.ports.values()
        return Netlist.single(call.ports, StreamFifo(port, int(call.attributes["depth"])))

    def operations(self, call: Call) -> int:
        """None."""
        return 0


def _same(codes: Tensor) -> Tensor:
    return codes
