"""Rows of a table by their numbers (torch.nn.functional.embedding).

The elements of the table are rounded to the result's format once, when the memory is made. A number
beyond the last row, such as a token outside of the vocabulary, gives the last row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from mase_hw.arithmetic.exact_formats import has_scale
from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Image, Netlist, NetlistBuilder
from mase_hw.cells.lookup import Lookup
from mase_hw.cells.rom_source import pack_words
from mase_hw.cells.stream_replay import StreamReplay
from mase_hw.formats import SCALARS, SCALED, Format, make_format
from mase_hw.formats.fixed import MIN_WIDTH_BITS
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import Attributes, Call, Example, Operator, Reference, example
from mase_hw.ops._interfaces import Exact, Judged, Numeric, Ordered, Tiled, Weighted


class Embedding(Operator, Weighted, Numeric, Exact, Ordered, Tiled, Judged):
    """Rows of a table by their numbers."""

    channel_axis = -1
    name = "embedding"
    families = SCALARS | SCALED
    result_axis = 1
    prunable = False
    targets = ("aten.embedding.default",)
    operand_names: Mapping[str, str] = {"weight": "weight", "indices": "data_in_0"}

    def operand_format(self, call: Call, name: str) -> Format | None:
        if name != "data_in_0":
            return None
        width = max(MIN_WIDTH_BITS, (call.operands["weight"].shape[0] - 1).bit_length())
        return make_format({"name": "fixed", "width": width, "frac_width": 0, "signed": False})

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        table = operands["weight"]
        return table[operands["data_in_0"].long().clamp(0, len(table) - 1)]

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if "weight" not in call.constants:
            problems.append("its table is computed by the model; it must be constant")
        if "data_in_0" in call.constants:
            problems.append("its numbers are constant: run fold_constants_transform_pass first")
        return problems

    def reference(self, call: Call) -> Reference:
        table = self._table(call)
        return lambda codes: table[codes.clamp(0, len(table) - 1)]

    def hardware(self, call: Call) -> Netlist:
        numbers, result = call.operands["data_in_0"], call.result
        tiles, rows = result.tiles[1], call.operands["weight"].shape[0]
        net = NetlistBuilder(call.ports)
        wire = net.input("data_in_0")
        if tiles > 1:
            wire = net.add(StreamReplay(net.port(wire), 1, tiles), "repeat", data_in=wire)
        cell = Lookup(
            numbers.quantized.encoding,
            result.quantized.encoding,
            result.lanes,
            tiles,
            rows,
            self._image(call),
            result.beats,
        )
        return net.netlist(data_out_0=net.add(cell, data_in_0=wire))

    def result_format(self, call: Call) -> Format | None:
        """That of a table whose codes are steps of a scale, which stay as they are."""
        number = call.operands["weight"].format
        return number if has_scale(number) else None

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        return fixed(call.operands["weight"])

    def orders(self, call: Call) -> dict[str, Order | None]:
        return {"data_in_0": None, "data_out_0": None}

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return []

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return {("data_in_0", 0): 1, ("data_in_0", 1): 1, ("data_out_0", 1): 1}

    def operations(self, call: Call) -> int:
        return 0

    @staticmethod
    def _table(call: Call) -> Tensor:
        """Return the codes of the results, a row for each number."""
        weight = call.operands["weight"].quantized
        return call.result.quantized.encode(weight.decode(call.constant_codes("weight")))

    def _image(self, call: Call) -> Image:
        """Return the memory: rows of beats, a power of two apart."""
        result, (rows, size) = call.result, call.operands["weight"].shape
        tiles, width = result.tiles[1], result.quantized.encoding.width
        row = TensorSpec((rows, size), parallelism=(1, result.lanes))

        def words() -> npt.NDArray[np.uint8]:
            beats = row.to_beats(self._table(call))
            padding = (1 << (tiles - 1).bit_length()) - tiles
            apart = nn.functional.pad(beats.reshape(rows, tiles, -1), (0, 0, 0, padding))
            return pack_words(result.quantized, apart.flatten(0, 1))

        return Image.of_octets(result.lanes * width, words)

    def examples(self) -> list[Example]:
        generator = torch.Generator().manual_seed(0)
        numbers = torch.randint(0, 11, (3, 4), generator=generator)
        return [example(nn.Embedding(11, 5), numbers)]
