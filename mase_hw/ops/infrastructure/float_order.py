"""The place of a float in the order of its format, a whole number, and the float at a place.

The code of a positive number of `width` bits, `exponent | mantissa`, is its place; that of a
negative one is the negative code of its magnitude, and both zeros have the place 0. Numbers are
compared by comparing places. Infinities lie beyond the largest number, NaN beyond them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mase_hw.cells import Netlist
from mase_hw.cells.float_order import FloatOrder as FloatOrderCell
from mase_hw.formats import FloatElement, FloatFormat, Format, make_format
from mase_hw.formats.fixed import Fixed
from mase_hw.ops._base import Attributes, Call, Example, Operator, Reference, example
from mase_hw.ops._interfaces import Numeric
from mase_hw.ops._library import define
from mase_hw.ops._one_cell import fields, one_cell


def _placed(
    values: Tensor, width: int, exponent_width: int, exponent_bias: int, back: bool
) -> Tensor:
    layout = FloatElement(exponent_width, width - 1 - exponent_width, exponent_bias)
    if back:
        found = layout.decode(floats_at(values.round().long(), width))
    else:
        found = places_of(layout.encode(values), width).double()
    return found.to(values.dtype)


define(
    "float_order(Tensor self, int width, int exponent_width, int exponent_bias, bool back)"
    " -> Tensor",
    _placed,
    opaque=True,
)


def _shape(number: Format | None) -> tuple[int, int, int] | None:
    """Return width, exponent width and bias of a float."""
    if not isinstance(number, FloatFormat):
        return None
    return number.layout.width, number.layout.exponent_width, number.layout.bias


def places_of(codes: Tensor, width: int) -> Tensor:
    """Return the places of codes of floats."""
    sign = 1 << (width - 1)
    magnitude = codes & (sign - 1)
    return torch.where(codes & sign != 0, -magnitude, magnitude)


def floats_at(places: Tensor, width: int) -> Tensor:
    """Return the codes of floats at places."""
    sign = 1 << (width - 1)
    return torch.where(places < 0, sign | (-places & (sign - 1)), places)


class FloatOrder(Operator, Numeric):
    """Reads a float as a whole number, or makes a float of one again (`back`)."""

    name = "float_order"
    targets = ("mase.float_order.default",)
    role = "order"

    def operand_format(self, call: Call, name: str) -> Format | None:
        return self._places(call) if call.attributes["back"] else self._float(call)

    def result_format(self, call: Call) -> Format | None:
        return self._float(call) if call.attributes["back"] else self._places(call)

    def problems(self, call: Call) -> list[str]:
        given, result = call.operands["data_in_0"].format, call.result.format
        places, number = (result, given) if not call.attributes["back"] else (given, result)
        wanted = self._float(call)
        if places == self._places(call) and _shape(number) == _shape(wanted):
            return []
        return [f"it takes {wanted} to its places, not {given} to {result}"]

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        given = (arguments[key] for key in ("width", "exponent_width", "exponent_bias", "back"))
        return _placed(operands["data_in_0"], *given)

    def reference(self, call: Call) -> Reference:
        width, back = int(call.attributes["width"]), bool(call.attributes["back"])
        return lambda codes: (floats_at if back else places_of)(codes, width)

    def hardware(self, call: Call) -> Netlist:
        return one_cell(call, FloatOrderCell(*fields(call), beats=call.result.beats))

    def operations(self, call: Call) -> int:
        return 0

    def examples(self) -> list[Example]:
        target = torch.ops.mase.float_order.default

        def there_and_back(x: Tensor) -> Tensor:
            places = target(x, 8, 4, 7, False)
            result: Tensor = target(places, 8, 4, 7, True)
            return result

        return [example(there_and_back, (3, 11))]

    @staticmethod
    def _places(call: Call) -> Fixed:
        return Fixed(int(call.attributes["width"]), 0)

    @staticmethod
    def _float(call: Call) -> FloatFormat:
        keys = ("width", "exponent_width", "exponent_bias")
        given = {key: call.attributes[key] for key in keys}
        if given["width"] - given["exponent_width"] < 2:
            width, bias = given["width"], given["exponent_bias"]
            found = make_format({"name": "log", "width": width, "exponent_bias": bias})
        else:
            found = make_format({"name": "minifloat_denorm", **given})
        assert isinstance(found, FloatFormat)
        return found
