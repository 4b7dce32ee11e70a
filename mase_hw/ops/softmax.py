"""Softmax along a dimension, `y = exp(x) / sum exp(x)` (torch.softmax), in fixed point.

The maximum of a row is subtracted from its elements, exactly; exponentials come from a table, their
sum is exact, and each is multiplied with its reciprocal and rounded once: see
`mase_hw/approximation/softmax.py` for the integers. The result is less than one step from the exact
one.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.approximation.softmax import Softmax as SoftmaxArithmetic
from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Image, Netlist
from mase_hw.cells.softmax import Softmax as SoftmaxCell
from mase_hw.ops._base import Apply, Call, Example, Reference, example_values
from mase_hw.ops._rows import Rows


class Softmax(Rows):
    """`y[i] = exp(x[i]) / sum exp(x)`."""

    name: ClassVar[str] = "softmax"
    targets: ClassVar[tuple[str, ...]] = ("aten.softmax.int", "aten._softmax.default")

    def dim(self, call: Call) -> int:
        """Return the dimension of the rows."""
        rank = max(1, len(call.operands["data_in_0"].shape))
        return int(call.attributes["dim"]) % rank

    def problems(self, call: Call) -> list[str]:
        """Also refuse formats that its tables are too small for."""
        return super().problems(call) or self._arithmetic(call).problems

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes."""
        dim, arithmetic = self.dim(call), self._arithmetic(call)

        def compute(codes: Tensor) -> Tensor:
            return arithmetic.evaluate(codes.movedim(dim, -1)).movedim(-1, dim)

        return compute

    def hardware(self, call: Call) -> Netlist:
        """Return one cell."""
        data, arithmetic = call.operands["data_in_0"], self._arithmetic(call)
        reciprocal, width = arithmetic.reciprocal, arithmetic.word_fraction + 1
        cell = SoftmaxCell(
            data.quantized.encoding,
            call.result.quantized.encoding,
            data.lanes,
            arithmetic.size,
            arithmetic.growth,
            arithmetic.exponential_fraction,
            arithmetic.fine_bits,
            arithmetic.word_fraction,
            reciprocal.fraction,
            reciprocal.index_bits,
            reciprocal.has_step,
            Image(width, lambda: arithmetic.fine),
            Image(width, lambda: arithmetic.coarse),
            Image(reciprocal.word_fraction + 1, lambda: reciprocal.words),
            data.beats,
        )
        return Netlist.single(call.ports, cell)

    def operations(self, call: Call) -> int:
        """A difference, an exponential, a sum and a product for each element."""
        return 4 * call.result.elements

    def _arithmetic(self, call: Call) -> SoftmaxArithmetic:
        data = call.operands["data_in_0"]
        size = data.shape[self.dim(call)]
        return call.once(
            "arithmetic", lambda: SoftmaxArithmetic(fixed(data), fixed(call.result), size)
        )

    def examples(self) -> list[Example]:
        """Over the last dimension, and over another one."""
        return [
            (Apply(lambda x: torch.softmax(x, -1)), (example_values(3, 2, 7),)),
            (Apply(lambda x: x.softmax(1)), (example_values(3, 5, 2),)),
        ]
