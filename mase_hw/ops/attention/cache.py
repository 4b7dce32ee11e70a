"""A memory of one entry a place, into which every inference writes one: keys, say, of all tokens.

An inference brings an entry and the number of its place. The result is the whole memory with the
entry in it, and so it stays for the next inference:

    state[place] = entry
    y = state

Places that nothing was written to since reset are zero. Entries lie along the dimension `dim`, the
last but one: `[..., 1, size]` becomes `[..., places, size]`. A number beyond the last place means
the last place, in software as in hardware; where a simulation is given one, it is refused.

Hardware sends the memory place by place, for each matrix of the leading dimensions, whatever place
is written: its cycles do not depend on the data. The entry passes the memory on its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from mase_hw.cells import Netlist, NetlistBuilder, Port
from mase_hw.cells.cache import Cache as CacheCell
from mase_hw.cells.stream_replay import StreamReplay
from mase_hw.formats import Format, make_format
from mase_hw.formats.fixed import MIN_WIDTH_BITS
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Attributes, Call, Example, Operator, Reference, example
from mase_hw.ops._interfaces import STATE, Numeric, Ordered, Stateful, Tiled
from mase_hw.ops._library import define


def _empty(entry: Tensor, dim: int, places: int) -> Tensor:
    shape = list(entry.shape)
    shape[dim] = places
    return entry.new_zeros(shape)


def _written(state: Tensor, entry: Tensor, position: Tensor, dim: int) -> Tensor:
    place = position.reshape(1).long().clamp(0, state.shape[dim] - 1)
    return state.index_copy(dim, place, entry)


def cache(entry: Tensor, position: Tensor, dim: int, places: int) -> Tensor:
    """Cache after its first entry."""
    return _written(_empty(entry, dim, places), entry, position, dim)


define("cache(Tensor self, Tensor position, int dim, int places) -> Tensor", cache)


class Cache(Operator, Stateful, Numeric, Ordered, Tiled):
    """A memory that an inference writes one entry of, and reads whole."""

    name = "cache"
    targets = ("mase.cache.default",)
    operand_names: Mapping[str, str] = {"self": "data_in_0", "position": "data_in_1"}

    def empty(self, attributes: Attributes, data_in_0: Tensor) -> Tensor:
        return _empty(data_in_0, attributes["dim"], attributes["places"])

    def places(self, call: Call) -> dict[str, int]:
        return {"data_in_1": call.attributes["places"]}

    def result_format(self, call: Call) -> Format | None:
        return call.operands["data_in_0"].format

    def operand_format(self, call: Call, name: str) -> Format | None:
        if name != "data_in_1":
            return None
        width = max(MIN_WIDTH_BITS, (call.attributes["places"] - 1).bit_length())
        return make_format({"name": "fixed", "width": width, "frac_width": 0, "signed": False})

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        state = operands[STATE]
        entry, position = operands["data_in_0"], operands["data_in_1"]
        result = _written(state, entry.to(state.dtype), position, arguments["dim"])
        state.copy_(result.detach())
        return result

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if call.constants:
            problems.append("what it keeps and where must be computed by the model, not constant")
        if call.attributes["dim"] not in (-2, len(call.result.shape) - 2):
            problems.append("its places lie along another dimension than the last but one")
        if call.attributes["places"] < 2:
            problems.append(f"it has {call.attributes['places']} place; at least 2 are needed")
        return problems

    def reference(self, call: Call) -> Reference:
        dim = call.attributes["dim"]

        def compute(entry: Tensor, position: Tensor, state: Tensor) -> Tensor:
            result = _written(state, entry, position, dim)
            state.copy_(result)
            return result

        return compute

    def hardware(self, call: Call) -> Netlist:
        entry, places = call.operands["data_in_0"], call.attributes["places"]
        block = entry.tiles[1]
        net = NetlistBuilder(call.ports)
        data, position = net.input("data_in_0"), net.input("data_in_1")
        again = StreamReplay(net.port(data), block, places)
        data = net.add(again, "entry", data_in=data)
        position = net.add(
            StreamReplay(net.port(position), 1, call.result.beats), "position", data_in=position
        )
        result = Port.of(call.result)
        cell = CacheCell(
            replace(result, packed=True),
            block,
            places,
            entry.beats // block,
            call.operands["data_in_1"].quantized.encoding.width,
        )
        return net.netlist(data_out_0=net.add(cell, data_in=data, position=position))

    def orders(self, call: Call) -> dict[str, Order | None]:
        return dict.fromkeys((*call.streams, *call.results))

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return [[("data_in_0", 0), ("data_out_0", 0)]]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return {
            ("data_in_0", 1): 1,
            ("data_in_1", 0): 1,
            ("data_in_1", 1): 1,
            ("data_out_0", 1): 1,
        }

    def operations(self, call: Call) -> int:
        return 0

    def examples(self) -> list[Example]:
        target = torch.ops.mase.cache.default
        position = torch.tensor([1])
        return [
            example(lambda x, p: target(x, p, 2, 5), (1, 2, 1, 3), position),
            example(lambda x, p: target(x, p, 1, 4), (1, 1, 6), position),
        ]
