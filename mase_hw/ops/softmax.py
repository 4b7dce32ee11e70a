"""Softmax along a dimension, `y = exp(x) / sum exp(x)` (torch.softmax), in fixed point.

The maximum of a row is subtracted from its elements, exactly; exponentials come from a table, their
sum is exact, and each is multiplied with its reciprocal and rounded once: see
`mase_hw/approximation/softmax.py` for the integers. The result is less than one step from the exact
one.

`mase.masked_softmax` is what attention is made of. It leaves out the elements where a constant mask
is false, as if they were minus infinity; of a row that is left out whole, all results are zero. It
multiplies elements with a scale before, which costs nothing, as it is in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from mase_hw.approximation.softmax import Softmax as SoftmaxArithmetic
from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Image, Netlist, NetlistBuilder, Port, RomSource
from mase_hw.cells.softmax import Softmax as SoftmaxCell
from mase_hw.formats import StreamField
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._base import (
    ANY_NUMBER,
    Apply,
    Call,
    Example,
    Reference,
    Spelling,
    example_values,
)
from mase_hw.ops._library import define_masked
from mase_hw.ops._one_cell import shortest_beats
from mase_hw.ops._rows import Rows


def masked_softmax(values: Tensor, mask: Tensor | None, dim: int, scale: float = 1.0) -> Tensor:
    """Return the softmax of scaled values where a mask is true, zero elsewhere."""
    scaled = values * scale
    if mask is None:
        return torch.softmax(scaled, dim)
    kept = mask.to(torch.bool)
    result = torch.softmax(scaled.masked_fill(~kept, float("-inf")), dim)
    return torch.where(kept, result, torch.zeros_like(result))


define_masked("masked_softmax", masked_softmax)


class Softmax(Rows):
    """`y[i] = exp(scale x[i]) / sum exp(scale x)`."""

    name: ClassVar[str] = "softmax"
    targets: ClassVar[tuple[str, ...]] = (
        "mase.masked_softmax.default",
        "aten.softmax.int",
        "aten._softmax.default",
    )

    def dim(self, call: Call) -> int:
        """Return the dimension of the rows."""
        rank = max(1, len(call.operands["data_in_0"].shape))
        return int(call.attributes["dim"]) % rank

    def bind(
        self,
        name: str,
        arguments: Mapping[str, Any],
        operands: Mapping[str, TensorSpec],
        results: Mapping[str, TensorSpec],
        constants: Mapping[str, Tensor],
    ) -> Call:
        """Take a constant mask, which has no number format, as an attribute."""
        mask = constants.get("mask")
        if mask is None:
            return super().bind(name, arguments, operands, results, constants)
        return Call(
            name,
            self,
            {key: spec for key, spec in operands.items() if key != "mask"},
            results,
            {key: value for key, value in constants.items() if key != "mask"},
            {**arguments, "mask": mask.to(torch.bool)},
        )

    def problems(self, call: Call) -> list[str]:
        """Also refuse a mask that streams, and formats that its tables are too small for."""
        found = super().problems(call)
        if "mask" in call.operands:
            found.append("its mask is computed by the model; it must be constant")
        return found or self._arithmetic(call).problems

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes."""
        dim, arithmetic = self.dim(call), self._arithmetic(call)
        mask = self._mask(call)
        kept = None if mask is None else mask.movedim(dim, -1)

        def compute(codes: Tensor) -> Tensor:
            return arithmetic.evaluate(codes.movedim(dim, -1), kept).movedim(-1, dim)

        return compute

    def hardware(self, call: Call) -> Netlist:
        """Return one cell, and the memory of a mask."""
        data, arithmetic = call.operands["data_in_0"], self._arithmetic(call)
        reciprocal, width = arithmetic.reciprocal, arithmetic.word_fraction + 1
        net, mask = NetlistBuilder(call.ports), self._mask(call)
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
            mask is not None,
            Image(width, lambda: arithmetic.fine),
            Image(width, lambda: arithmetic.coarse),
            Image(reciprocal.word_fraction + 1, lambda: reciprocal.words),
            data.beats,
        )
        kept = None if mask is None else net.memory("mask", _memory(data, mask))
        return net.netlist(data_out_0=net.add(cell, data_in_0=net.input("data_in_0"), mask=kept))

    def operations(self, call: Call) -> int:
        """A difference, an exponential, a sum and a product for each element."""
        return 4 * call.result.elements

    @staticmethod
    def _mask(call: Call) -> Tensor | None:
        """Return the mask in the shape of one inference."""
        mask = call.attributes.get("mask")
        return None if mask is None else mask.expand(call.operands["data_in_0"].shape)

    def _arithmetic(self, call: Call) -> SoftmaxArithmetic:
        data, scale = call.operands["data_in_0"], float(call.attributes.get("scale", 1.0))
        size = data.shape[self.dim(call)]
        return call.once(
            "arithmetic", lambda: SoftmaxArithmetic(fixed(data), fixed(call.result), size, scale)
        )

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        """Yield it behind a product with a number."""
        for dtype in (None, torch.float32):
            scaled = torch.softmax(x * ANY_NUMBER, -1, dtype=dtype)
            yield scaled, {"mask": None, "dim": -1, "scale": ANY_NUMBER}

    def examples(self) -> list[Example]:
        """Over the last dimension, over another one, and scaled with a mask."""
        mask = torch.ones(4, 7, dtype=torch.bool).tril(2)
        mask[1] = False
        masked = torch.ops.mase.masked_softmax
        return [
            (Apply(lambda x: torch.softmax(x, -1)), (example_values(3, 2, 7),)),
            (Apply(lambda x: x.softmax(1)), (example_values(3, 5, 2),)),
            (
                Apply(lambda x, kept: masked(x, kept, -1, 0.7), mask),
                (example_values(3, 2, 4, 7),),
            ),
        ]


def _memory(data: TensorSpec, mask: Tensor) -> RomSource:
    """Return the memory of a mask, beat for beat with the elements."""
    beats, hold = shortest_beats(data.to_beats(mask.to(torch.int64)))
    port = Port((StreamField("", data.lanes, 1),), len(beats), packed=True)

    def words() -> list[int]:
        return (beats << torch.arange(data.lanes)).sum(1).tolist()

    return RomSource(port, Image(data.lanes, words), len(beats), hold)
