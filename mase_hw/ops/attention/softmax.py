"""Softmax along a dimension, `y = exp(x) / sum exp(x)` (torch.softmax), in fixed point.

The maximum of a row is subtracted from its elements, exactly; exponentials come from a table, their
sum is exact, and each is multiplied with its reciprocal and rounded once: see
`mase_hw/approximation/softmax.py` for the integers. The result is less than one step from the exact
one, or one and a half where it is rounded down or towards zero.

`mase.masked_softmax` is what attention is made of. It leaves out the elements where a constant mask
is false, as if they were minus infinity, and those where what streams beside them is zero, such as
the keys of padding; of a row that is left out whole, all results are zero. It multiplies elements
with a scale before, which costs nothing, as it is in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw._kinds import Record
from mase_hw.approximation.softmax import Softmax as SoftmaxArithmetic
from mase_hw.approximation.softmax import most_fraction
from mase_hw.arithmetic.carriers import fixed_of
from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Image, Netlist, NetlistBuilder, Port, RomSource
from mase_hw.cells.softmax import Softmax as SoftmaxCell
from mase_hw.formats import Encoding, Format, StreamField, make_format
from mase_hw.formats.fixed import MIN_WIDTH_BITS
from mase_hw.geometry.runs import stream_axes
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import (
    OPERAND_NAMES,
    Apply,
    Call,
    Example,
    Reference,
    example,
    example_values,
)
from mase_hw.ops._interfaces import (
    ANY_NUMBER,
    Broadcasting,
    Exact,
    Growing,
    Judged,
    Recognized,
    Rescaled,
    Spelling,
)
from mase_hw.ops._library import define
from mase_hw.ops._masking import Mask, Masked, for_scores
from mase_hw.ops._one_cell import shortest_beats
from mase_hw.ops.movement._indices import aligned_order
from mase_hw.ops.reductions._reduce import Rows


def masked_softmax(
    values: Tensor,
    mask: Tensor | None,
    dim: int,
    scale: float = 1.0,
    kept: Tensor | None = None,
) -> Tensor:
    """Return the softmax of scaled values where a mask is true and others are kept, else zero."""
    scaled = values * scale
    seen = _both(mask, kept)
    if seen is None:
        return torch.softmax(scaled, dim)
    result = torch.softmax(scaled.masked_fill(~seen, float("-inf")), dim)
    return torch.where(seen, result, torch.zeros_like(result))


def _both(mask: Tensor | None, kept: Tensor | None) -> Tensor | None:
    """Elements at which neither is zero; None where all elements count."""
    given = [item != 0 for item in (mask, kept) if item is not None]
    return given[0] & given[-1] if given else None


define(
    "masked_softmax(Tensor self, Tensor? mask, int dim, float scale=1.0, Tensor? kept=None)"
    " -> Tensor",
    masked_softmax,
)


class Softmax(Rows, Broadcasting, Exact, Masked, Growing, Recognized, Judged, Rescaled):
    """`y[i] = exp(scale x[i]) / sum exp(scale x)`."""

    one_scale = True
    name = "softmax"
    targets = ("mase.masked_softmax.default", "aten.softmax.int", "aten._softmax.default")
    operand_names: Mapping[str, str] = {**OPERAND_NAMES, "kept": "data_in_1"}
    exact_everywhere = False
    masked_argument = "self"

    def dim(self, call: Call) -> int:
        rank = max(1, len(call.operands["data_in_0"].shape))
        return int(call.attributes["dim"]) % rank

    def bind(self, call: Call) -> Call:
        operands, constants = dict(call.operands), dict(call.constants)
        mask = constants.pop("mask", None)
        if mask is None:
            return call
        del operands["mask"]
        known = {**call.attributes, "mask": mask.to(torch.bool)}
        return replace(call, operands=operands, constants=constants, attributes=known)

    def operand_format(self, call: Call, name: str) -> Format | None:
        if name != "data_in_1":
            return None
        fields = {"name": "fixed", "width": MIN_WIDTH_BITS, "frac_width": 0, "signed": False}
        return make_format(fields)

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if "mask" in call.operands:
            problems.append(
                "its mask is computed by the model for every query and key: it must be constant, "
                "or leave out the keys of a row that are zero in an input [batch, keys]"
            )
        return problems or self._arithmetic(call).problems

    def masked(self, call: Call, operands: Mapping[str, Tensor], mask: Mask, scale: float) -> Any:
        data, shape = operands["data_in_0"], call.result.shape
        if self.dim(call) != len(shape) - 1 or call.attributes.get("mask") is not None:
            return None
        if mask.bias is not None:
            scaled = data if scale == 1 else aten.mul.Tensor(data, scale)
            data, scale = aten.add.Tensor(scaled, mask.bias), 1.0
        kept = None if mask.kept is None else for_scores(mask, len(shape), shape[-1])
        scale *= float(call.attributes.get("scale", 1.0))
        return torch.ops.mase.masked_softmax.default(data, mask.seen, -1, scale, kept)

    def in_units(self, call: Call, operands: Mapping[str, Tensor], unit: float) -> Tensor:
        mask, scale = call.attributes.get("mask"), float(call.attributes.get("scale", 1.0))
        given = operands["data_in_0"], mask, self.dim(call), scale * unit
        result: Tensor = torch.ops.mase.masked_softmax.default(*given)
        return result

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        """Format that is less than a step off, a sixteenth of the least step of the result's.

        It has fewer fraction bits where its tables are too small for them.
        """
        size = call.operands["data_in_0"].shape[self.dim(call)]
        places = min(fraction + 3, most_fraction(size))
        return fixed_of(places + 2, places)

    def orders(self, call: Call) -> dict[str, Order | None]:
        found = super().orders(call)
        if "data_in_1" in call.operands:
            data = call.operands["data_in_0"].with_order(found["data_in_0"])
            axes = stream_axes(data)
            assert axes is not None
            kept = call.operands["data_in_1"]
            found["data_in_1"] = aligned_order(kept, len(data.shape), axes)
        return found

    def growing(self, call: Call) -> list[frozenset[str]]:
        last = self.dim(call) == len(call.operands["data_in_0"].shape) - 1
        return [frozenset({*call.streams, "data_out_0"})] if last else []

    def is_triangular(self, call: Call) -> bool:
        mask = call.attributes.get("mask")
        last = self.dim(call) == len(call.operands["data_in_0"].shape) - 1
        return mask is not None and last and mask.dim() > 1 and not bool(mask.triu(1).any())

    def reference(self, call: Call) -> Reference:
        dim, arithmetic = self.dim(call), self._arithmetic(call)
        mask = self._mask(call)

        def compute(codes: Tensor, kept: Tensor | None = None) -> Tensor:
            seen = _both(mask, kept)
            if seen is not None:
                seen = seen.expand(codes.shape).movedim(dim, -1)
            return arithmetic.evaluate(codes.movedim(dim, -1), seen).movedim(-1, dim)

        return compute

    def hardware(self, call: Call) -> Netlist:
        data, arithmetic = call.operands["data_in_0"], self._arithmetic(call)
        reciprocal, width = arithmetic.reciprocal, arithmetic.word_fraction + 1
        net, mask = NetlistBuilder(call.ports), self._mask(call)
        if data.grows and data.lanes == 1 and call.once("leaves out", lambda: self._is_whole(call)):
            # What it leaves out does not come.
            mask = None
        padding = call.operands.get("data_in_1")
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
            padding is not None,
            Encoding(1) if padding is None else padding.quantized.encoding,
            Image(width, lambda: arithmetic.fine),
            Image(width, lambda: arithmetic.coarse),
            Image(reciprocal.word_fraction + 1, lambda: reciprocal.words),
            data.beats,
            data.growth,
        )
        wires: Record = {name: net.input(name) for name in call.streams}
        kept = None if mask is None else net.memory("mask", _memory(data, mask))
        return net.netlist(data_out_0=net.add(cell, **wires, mask=kept))

    @staticmethod
    def _is_whole(call: Call) -> bool:
        """True if the mask keeps all that is not above the diagonal."""
        mask = call.attributes["mask"]
        return bool((mask | ~torch.ones_like(mask).tril()).all())

    def operations(self, call: Call) -> int:
        return 4 * call.result.elements

    @staticmethod
    def _mask(call: Call) -> Tensor | None:
        mask = call.attributes.get("mask")
        return None if mask is None else mask.expand(call.operands["data_in_0"].shape)

    def _arithmetic(self, call: Call) -> SoftmaxArithmetic:
        data, scale = call.operands["data_in_0"], float(call.attributes.get("scale", 1.0))
        size = data.shape[self.dim(call)]
        return call.once(
            "arithmetic", lambda: SoftmaxArithmetic(fixed(data), fixed(call.result), size, scale)
        )

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        for dtype in (None, torch.float32):
            scaled = torch.softmax(x * ANY_NUMBER, -1, dtype=dtype)
            yield scaled, {"mask": None, "dim": -1, "scale": ANY_NUMBER}

    def examples(self) -> list[Example]:
        mask = torch.ones(4, 7, dtype=torch.bool).tril(2)
        mask[1] = False
        masked = torch.ops.mase.masked_softmax
        x, kept = example_values(3, 2, 4, 7), example_values(3, 1, 1, 7, seed=1) > 0
        return [
            example(lambda x: torch.softmax(x, -1), (3, 2, 7)),
            example(lambda x: x.softmax(1), (3, 5, 2)),
            example(Apply(lambda x, kept: masked(x, kept, -1, 0.7), mask), (3, 2, 4, 7)),
            example(lambda x, y: masked(x, None, -1, 1.0, y), x, kept),
            example(Apply(lambda x, y, m: masked(x, m, -1, 1.0, y), mask), x, kept),
        ]


def _memory(data: TensorSpec, mask: Tensor) -> RomSource:
    """Return the memory of a mask, beat for beat with the elements."""
    beats, hold = shortest_beats(data.to_beats(mask.to(torch.int64)))
    port = Port((StreamField("", data.lanes, 1),), len(beats), packed=True)

    def words() -> list[int]:
        return (beats << torch.arange(data.lanes)).sum(1).tolist()

    return RomSource(port, Image(data.lanes, words), len(beats), hold)
