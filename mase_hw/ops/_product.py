"""What sums of products with constant weights share, whatever the number format of their operands.

A product takes rows of data, in a form in which 0 is zero, and gives exact sums, which the caller
rounds to the result's format. Fixed point alone has units of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mase_hw.formats.fixed import Fixed
from mase_hw.ops._base import Call, Cycles, Hardware, Source, Table
from mase_hw.ops._blocks import block_axis, is_block
from mase_hw.ops._encode import offered, result_parameters, unread


@dataclass(frozen=True)
class Product(ABC):
    """One sum of products for each row and each result.

    Attributes:
        call: the operator's call.
        matrix: takes the weight, or its codes, to `[results, terms]`.
        row: terms of a row of blocks: the last dimension, or the channels of a pixel.
        abbreviation: the word in the names of its modules.
    """

    call: Call
    matrix: Callable[[Tensor], Tensor]
    row: int

    abbreviation: ClassVar[str]

    @abstractmethod
    def problems(self) -> list[str]:
        """Return what stands between the call and hardware."""

    @abstractmethod
    def plain(self, codes: Tensor) -> Tensor:
        """Return data codes in a form in which 0 is zero."""

    @abstractmethod
    def sums(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Return a function from plain rows `[n, terms]` to integers and exponents of two."""

    @abstractmethod
    def parameters(self) -> Mapping[str, int | str]:
        """Return the parameters of the sums in hardware."""

    @abstractmethod
    def complete(self, met: Cycles) -> Cycles:
        """Return when sums are complete, given when their last operands meet."""

    def axis_problems(self) -> list[str]:
        """Return which blocks do not lie along the dimension that the operator sums over."""
        found = []
        for name, spec in {**self.call.operands, **self.call.results}.items():
            if is_block(spec):
                wanted = self.call.operator.block_axis(name)
                assert wanted is not None
                legal = len(spec.shape) + wanted
                if (axis := block_axis(spec)) != legal:
                    found.append(
                        f"{name} has blocks along dimension {axis}; blocks of "
                        f"{self.call.operator.name} must lie along dimension {legal}"
                    )
        return found

    def schedule(self, met: Cycles) -> Cycles:
        """Return when results are offered."""
        return offered(self.call.result, self.complete(met))

    @property
    def zeros(self) -> tuple[str, ...]:
        """Further ports of the module that are tied to zero."""
        return ()

    def hardware(
        self,
        module: str,
        sources: Sequence[Source],
        parameters: Mapping[str, int | str] | None = None,
        tables: Sequence[Table] = (),
    ) -> Hardware:
        """Return an instance whose weights, and bias if any, come from ROMs."""
        has_bias = "bias" in self.call.operands
        return Hardware(
            module,
            {
                "HAS_BIAS": int(has_bias),
                **self.parameters(),
                **result_parameters(self.call.name, self.call.result),
                **(parameters or {}),
            },
            sources,
            tables,
            absent=() if has_bias else ("bias",),
            zeros=self.zeros,
            open=unread(self.call.result),
        )


def all_fixed(call: Call) -> bool:
    """Return whether everything is fixed point."""
    return all(isinstance(s.format, Fixed) for s in (*call.operands.values(), call.result))


def same(weight: Tensor) -> Tensor:
    """Return the weight of a linear layer as it is."""
    return weight


def rounded(call: Call, sums: tuple[Tensor, Tensor], shape: Sequence[int]) -> Tensor:
    """Return the codes of exact sums in the result's format, in its shape."""
    integers, exponents = sums[0], sums[1].expand(sums[0].shape)
    return call.result.quantized.from_scaled(integers.reshape(shape), exponents.reshape(shape))
