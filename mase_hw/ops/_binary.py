"""Element-wise operators of two operands, each a stream or a constant, with broadcasting."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from mase_hw.cells import Netlist
from mase_hw.cells._operation import Operation
from mase_hw.cells.binary_fixed import BinaryFixed
from mase_hw.formats._encoding import Families
from mase_hw.formats.fixed import Fixed
from mase_hw.geometry.tensor import Order
from mase_hw.ops import _elementwise_minifloat as minifloat
from mase_hw.ops import _elementwise_mxint as mxint
from mase_hw.ops._base import (
    Apply,
    Call,
    Example,
    Operator,
    Reference,
    example_values,
    torch_target,
)
from mase_hw.ops._blocks import block_order
from mase_hw.ops._broadcast import broadcast_orders
from mase_hw.ops._elementwise import ELEMENTWISE, fields, is_all_fixed, one_cell
from mase_hw.ops._fixed import fixed


class Binary(Operator):
    """`y = cast(f(a, b))` with `f` exact in integers.

    Subclasses give `f` on fixed-point codes, the fraction and width of its result, and the name of
    `f`, which says what it is on floats and blocks: see `_elementwise_minifloat` and
    `_elementwise_mxint`.

    Attributes:
        operation: `add`, `subtract` or `multiply`.
    """

    broadcasts: ClassVar[bool] = True
    families: ClassVar[Families] = ELEMENTWISE
    operation: ClassVar[str]

    @abstractmethod
    def combine(self, first: Tensor, second: Tensor, formats: tuple[Fixed, Fixed]) -> Tensor:
        """Return exact int64 codes of `f`."""

    @abstractmethod
    def exact(self, first: Fixed, second: Fixed) -> tuple[int, int]:
        """Return the fraction bits and the width in bits of the exact result."""

    @abstractmethod
    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        """Return `f` of real values."""

    def compute(
        self, target: Any, arguments: Mapping[str, Any], operands: Mapping[str, Tensor]
    ) -> Tensor:
        """Return `f`; the scalar overloads take quantised constants, which are tensors, too."""
        return self.combine_values(operands["data_in_0"], operands["data_in_1"])

    def problems(self, call: Call) -> list[str]:
        """Also refuse scaled operands, two constants, and sums beyond 62 bits."""
        found = super().problems(call)
        if call.attributes.get("alpha", 1) != 1:
            found.append(f"alpha is {call.attributes['alpha']}: run decompose_transform_pass first")
        if not call.streams:
            found.append("both operands are constant")
        if not found and mxint.serves(call):
            shapes = {spec.shape for spec in call.streams.values()}
            if len(shapes) > 1:
                return [f"streams of shapes {sorted(shapes)} are expanded in fixed point only"]
            return mxint.binary_problems(call, self.operation)
        if not found and not is_all_fixed(call):
            return minifloat.binary_problems(call, self.operation)
        if not found:
            width = self.exact(*self._formats(call))[1]
            if width > 62:
                found.append(f"the exact result takes {width} bits, at most 62 are supported")
        return found

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes; constants are encoded once."""
        if mxint.serves(call):
            return mxint.binary_reference(call, self.operation)
        if not is_all_fixed(call):
            return minifloat.binary_reference(call, self.operation)
        formats = self._formats(call)
        fraction = self.exact(*formats)[0]
        result = call.result.quantized
        constants = {name: call.constant_codes(name) for name in call.constants}
        streams = list(call.streams)

        def compute(*codes: Tensor) -> Tensor:
            operands = {**constants, **dict(zip(streams, codes, strict=True))}
            exact = self.combine(operands["data_in_0"], operands["data_in_1"], formats)
            return result.from_fixed(exact, fraction)

        return compute

    def hardware(self, call: Call) -> Netlist:
        """Return a cell; a constant operand comes from a ROM as beats of the result."""
        if mxint.serves(call):
            return one_cell(call, mxint.binary_cell(call, self.operation))
        if not is_all_fixed(call):
            return one_cell(call, minifloat.binary_cell(call, self.operation))
        second = call.operands["data_in_1"].quantized.encoding
        operation = Operation[self.operation.upper()]
        cell = BinaryFixed(*fields(call), second, operation, beats=call.result.beats)
        return one_cell(call, cell)

    def block_axis(self, name: str) -> int | None:
        """Any: blocks stay as they are."""
        return None

    def orders(self, call: Call) -> dict[str, Order | None]:
        """Blocks come whole, anything else in any; smaller streams take it too."""
        if mxint.serves(call):
            return dict.fromkeys([*call.streams, *call.results], block_order(call.result))
        return broadcast_orders(call)

    def _formats(self, call: Call) -> tuple[Fixed, Fixed]:
        return fixed(call.operands["data_in_0"]), fixed(call.operands["data_in_1"])

    def examples(self) -> list[Example]:
        """Two streams, equal or not, a constant of one row, of one element, a Python scalar."""
        target = torch_target(self.targets[0])
        any_overload = torch_target(self.targets[0].rpartition(".")[0])
        row = example_values(7, seed=1)
        return [
            (Apply(target), (example_values(3, 7), example_values(3, 7, seed=1))),
            (Apply(target), (example_values(3, 2, 1, 3), example_values(3, 1, 5, 1, seed=1))),
            (Apply(target, row), (example_values(3, 2, 7),)),
            (Apply(target, row[:1]), (example_values(3, 7),)),
            (Apply(lambda x: any_overload(x, 0.75)), (example_values(3, 7),)),
        ]
