"""A queue of beats, inserted where streams meet after paths of different delay."""

from __future__ import annotations

from mase_hw.cells import Netlist
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.ops._base import Call, Example, example, torch_target
from mase_hw.ops._library import copied, define
from mase_hw.ops.movement._moves import Wire

define("fifo(Tensor self, int depth) -> Tensor", copied)


class Fifo(Wire):
    """The identity, `depth` beats deep."""

    name = "fifo"
    targets = ("mase.fifo.default",)
    role = "fifo"

    def hardware(self, call: Call) -> Netlist:
        (port,) = call.ports.values()
        return Netlist.single(call.ports, StreamFifo(port, int(call.attributes["depth"])))

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        return [example(lambda x: target(x, 3), (3, 11))]
