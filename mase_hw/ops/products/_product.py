"""What sums of products with constant weights share, whatever the number format of their operands.

A product takes rows of data, in a form in which 0 is zero, and gives exact sums, which are rounded
to the result's format. `product_of` chooses the one arithmetic that a call has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from mase_hw.cells import Cell, NetlistBuilder, Wire
from mase_hw.geometry import TensorSpec
from mase_hw.geometry.blocks import block_axis, is_block
from mase_hw.ops._base import Call
from mase_hw.ops._interfaces import Numeric

GUARD = "sum_guard_bits"
# Whether integers with a scale get the codes of the exact scales, or are refused.
EXACT = "exact"
OPTIONS = {GUARD: range(49), EXACT: range(2)}


@dataclass(frozen=True)
class Feed:
    """How data and weights meet in an accumulator.

    Attributes:
        terms: beats of a sum.
        group_terms: beats of a row, or of a pixel.
        tail: lanes of the last of them that count.
        rows: rows of a beat.
        in_lanes: elements of a row.
        out_lanes: results of a row.
        beats: beats of an inference.
        separate: whether each result has elements of its own.
        windows: whether beats come from a window, which shows places outside the image.
    """

    terms: int
    group_terms: int
    tail: int
    rows: int
    in_lanes: int
    out_lanes: int
    beats: int
    separate: bool = False
    windows: bool = False


@dataclass(frozen=True)
class Product(ABC):
    """One sum of products for each row and each result.

    Attributes:
        call: the operator's call.
        matrix: takes the weight, or its codes, to `[results, terms]`.
        row: terms of a row of blocks: the last dimension, or the channels of a pixel.
        axis: dimension of the results in the result.
        guards: whether sums keep guard bits.
    """

    call: Call
    matrix: Callable[[Tensor], Tensor]
    row: int
    axis: int

    guards = False

    def refusals(self) -> list[str]:
        """Obstacles between the call and hardware, its options too."""
        if not self.guards and GUARD in self.call.attributes:
            return [f"{GUARD} is for sums of blocks, and these are exact: leave it out"]
        return self.problems()

    @abstractmethod
    def problems(self) -> list[str]:
        """Obstacles between the call and hardware."""

    def notes(self) -> list[str]:
        """Notes on the width of its sums."""
        return []

    def plain(self, codes: Tensor) -> Tensor:
        """Return data codes in a form in which 0 is zero."""
        return codes

    @abstractmethod
    def sums(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Return a function from plain rows `[n, terms]` to integers and exponents of two."""

    def rounded(self, integers: Tensor, exponents: Tensor) -> Tensor:
        """Return the codes of exact sums, in the shape of the result, in its format."""
        result = self.call.result.quantized
        if exponents.dim() == 0:
            return result.from_fixed(integers, -int(exponents))
        return result.from_scaled(integers, exponents)

    @property
    def marks(self) -> bool:
        """Whether data have no zero, so that places outside an image must be marked."""
        return False

    @property
    def operands(self) -> Call:
        """The call whose constants the accumulator takes, and in whose formats."""
        return self.call

    @abstractmethod
    def cell(self, feed: Feed) -> Cell:
        """Return the accumulator that sums the products."""

    def prepare(self, net: NetlistBuilder, data: Wire) -> Wire:
        """Return the data as the accumulator takes them."""
        return data

    def complete(self, net: NetlistBuilder, cell: Cell, feed: Feed, **inputs: Wire | None) -> Wire:
        """Add the accumulator, and what stands behind it; return the result."""
        return net.add(cell, "", **inputs)

    def accumulate(
        self,
        net: NetlistBuilder,
        data: Wire,
        feed: Feed,
        weight: TensorSpec,
        arrange: Callable[[Tensor], Tensor],
    ) -> Wire:
        """Add the memories of the constants and the accumulator; return the result.

        Args:
            net: the netlist.
            data: what `prepare` returned, in beats as the accumulator takes them.
            feed: how they come.
            weight: shape and tiles of the weights, `[results, elements]`.
            arrange: takes weight codes to that shape.
        """
        call = self.operands
        number = call.operands["weight"].format
        weights = net.source(
            "weight",
            weight.with_format(number),
            lambda: arrange(call.constant_codes("weight")),
        )
        bias = None
        if "bias" in call.constants:
            spec = call.operands["bias"].with_parallelism(1, feed.out_lanes)
            bias = net.source("bias", spec, lambda: call.constant_codes("bias"))
        return self.complete(net, self.cell(feed), feed, data_in_0=data, weight=weights, bias=bias)

    def axis_problems(self) -> list[str]:
        """Return which blocks do not lie along the dimension that the operator sums over."""
        problems = []
        for name, spec in {**self.call.operands, **self.call.results}.items():
            if is_block(spec):
                wanted = Numeric.of(self.call.operator).block_axis(name)
                assert wanted is not None
                legal = len(spec.shape) + wanted
                if (axis := block_axis(spec)) != legal:
                    problems.append(
                        f"{name} has blocks along dimension {axis}; blocks of "
                        f"{self.call.operator.name} must lie along dimension {legal}"
                    )
        return problems
