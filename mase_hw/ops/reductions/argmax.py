"""Index of the largest element along a dimension (torch.argmax); the first of equals.

The result is a whole number without sign, of as many bits as the largest index takes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.cells import Netlist
from mase_hw.cells.argmax import Argmax as ArgmaxCell
from mase_hw.formats import Format, make_format
from mase_hw.formats.fixed import MIN_WIDTH_BITS
from mase_hw.ops._base import Call, Example, Reference, example
from mase_hw.ops._numbers import Numeric, Rescaled, Selecting
from mase_hw.ops.reductions._reduce import Reduction


class Argmax(Reduction, Selecting, Numeric, Rescaled):
    """`y = min { i : x[i] = max x }`."""

    name = "argmax"
    targets = ("aten.argmax.default",)
    casts = False

    def result_format(self, call: Call) -> Format | None:
        shape = call.operands["data_in_0"].shape or (1,)
        size = max(shape[dim] for dim in self.dims(call))
        width = max(MIN_WIDTH_BITS, (size - 1).bit_length())
        return make_format({"name": "fixed", "width": width, "frac_width": 0, "signed": False})

    def in_units(self, call: Call, operands: Mapping[str, Tensor], unit: float) -> Tensor:
        """Return the same index: units do not change an order."""
        given = call.attributes
        return aten.argmax.default(operands["data_in_0"], given["dim"], given["keepdim"])

    def reference(self, call: Call) -> Reference:
        (dim,) = self.dims(call)
        shape = call.result.shape

        def compute(codes: Tensor) -> Tensor:
            moved = codes.movedim(dim, -1)
            size = moved.shape[-1]
            largest = moved == moved.amax(-1, keepdim=True)
            indices = torch.where(largest, torch.arange(size), size)
            return indices.amin(-1).reshape(-1, *shape[1:])

        return compute

    def hardware(self, call: Call) -> Netlist:
        data, run = call.operands["data_in_0"], self.run(call)
        lanes, index = data.parallelism[1], call.result.quantized.encoding
        row = run.row if lanes > 1 else 0
        cell = ArgmaxCell(
            data.quantized.encoding, lanes, index.width, row, run.terms, run.inner, data.beats
        )
        return Netlist.single(call.ports, cell)

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.argmax(1), (2, 10)),
            example(lambda x: x.argmax(1, keepdim=True), (2, 3, 4)),
        ]
