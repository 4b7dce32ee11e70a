"""Conversion of a stream to another number format; rounds and saturates as the result does.

From or to integers with a real scale, the scale is rounded to a multiple of a power of two first,
see `mase_hw.arithmetic.requantize`.
"""

from __future__ import annotations

from mase_hw.arithmetic import requantize as scaled
from mase_hw.arithmetic.fixed_point import is_fixed
from mase_hw.arithmetic.scalars import result_problems, unit_problems
from mase_hw.cells import Netlist
from mase_hw.cells.cast_fixed import CastFixed
from mase_hw.cells.cast_mixed import CastMixed
from mase_hw.formats import Family
from mase_hw.geometry.blocks import block_axis, block_order, block_problems, check_tiles, is_block
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call, Operator, Reference
from mase_hw.ops._interfaces import Elementwise, Ordered
from mase_hw.ops._library import copied, define
from mase_hw.ops._one_cell import fields, one_cell, row_fields

define("cast(Tensor self) -> Tensor", copied)


class Cast(Operator, Elementwise, Ordered):
    """The identity on values, in two formats.

    Attributes:
        most_bits: of exact values that are encoded; as many as the result takes when 0.
    """

    name = "cast"
    most_bits = 0
    targets: tuple[str, ...] = ("mase.cast.default",)
    role = "cast"
    families = frozenset(Family)

    def problems(self, call: Call) -> list[str]:
        found = super().problems(call)
        if found:
            return found
        data, result = call.operands["data_in_0"], call.result
        if is_block(data):
            found += block_problems("data_in_0", data)
        elif scaled.is_scaled(data):
            found += scaled.operand_problems("data_in_0", data)
        else:
            found += unit_problems("data_in_0", data.quantized)
        if scaled.is_scaled(result):
            found += scaled.operand_problems("data_out_0", result)
        else:
            found += result_problems(result)
        both = is_block(data) and is_block(result)
        if not found and both and block_axis(data) != block_axis(result):
            found.append(
                "its blocks lie along different dimensions: configure the result before it, "
                "data_out_name, as fixed"
            )
        most = self.most_bits or result.quantized.exact_bits
        if not found and (bits := _exact_bits(call)) > most:
            found.append(
                f"values of {data.format} take {bits} bits beside its scale; "
                f"{result.format} is encoded from {most} at most"
            )
        return found

    def orders(self, call: Call) -> dict[str, Order | None]:
        for spec in (call.operands["data_in_0"], call.result):
            if is_block(spec):
                return dict.fromkeys(("data_in_0", "data_out_0"), block_order(spec))
        return super().orders(call)

    def multiplier_bits(self, call: Call) -> int:
        """Return the bits of the multiplier of a real scale; as many as a layer's when 0."""
        return 0

    def reference(self, call: Call) -> Reference:
        given, result = call.operands["data_in_0"].quantized, call.result.quantized
        return scaled.cast_reference(given, result, self.multiplier_bits(call))

    def hardware(self, call: Call) -> Netlist:
        data, result = call.operands["data_in_0"], call.result
        if is_fixed(data, result):
            return one_cell(call, CastFixed(*fields(call), beats=result.beats))
        for name, spec in (("data_in_0", data), ("data_out_0", result)):
            if is_block(spec):
                check_tiles(call.name, name, spec)
        bits = self.multiplier_bits(call)
        multiplier = scaled.cast_multiplier(data.quantized, result.quantized, bits).values()
        return one_cell(call, CastMixed(*row_fields(call), *multiplier, beats=result.beats))

    def operations(self, call: Call) -> int:
        return 0


def _exact_bits(call: Call) -> int:
    """Return the bits of a significand, with the multiplier of a real scale."""
    given, result = call.operands["data_in_0"].quantized, call.result.quantized
    factor = scaled.cast_multiplier(given, result).get("MULTIPLIER", 1)
    fields = given.stream_fields(1)
    return sum(item.width_bits for item in fields) + factor.bit_length()
