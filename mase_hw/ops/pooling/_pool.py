"""Pooling: the maximum or the mean over a window, channel by channel.

A mean is an exact sum divided by the number of its pixels, rounded once. Where windows hold
different numbers of pixels, sums are scaled to a common divisor first.

Pooling of volumes: of every frame first, then over the depth.

A largest element is the same either way. A mean is rounded after each of the two.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import lcm
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.arithmetic.fixed_point import fixed, too_wide
from mase_hw.arithmetic.quotient import Quotient, exact_quotient
from mase_hw.cells import Netlist, NetlistBuilder, RomSource
from mase_hw.cells.reduce import Reduce
from mase_hw.cells.sliding_window import SlidingWindow
from mase_hw.formats import Format
from mase_hw.formats.fixed import MAX_WIDTH_BITS, Fixed
from mase_hw.geometry.runs import Run
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.geometry.window import ONE_PIXEL, Axis, Gather, Window, pair
from mase_hw.ops._base import Call, Operator, Reference
from mase_hw.ops._interfaces import Exact, Ordered, Summing, Tiled
from mase_hw.ops.convolution._volumes import (
    image_orders,
    no_batch,
    separately,
    triple,
    volume_problems,
)
from mase_hw.ops.reductions._reduce import reduce_cell


class Pool(Operator, Exact, Ordered, Tiled, Summing):
    """Pooling; subclasses say which pixels a window holds and how many it counts."""

    homogeneous = True
    dimensions: ClassVar[int]
    maximum = False

    @abstractmethod
    def axes(self, call: Call) -> tuple[Axis, Axis]:
        """Return the vertical and the horizontal axis."""

    def counts(self, call: Call) -> tuple[list[int], list[int]]:
        """Divisors of each row and each column of positions."""
        rows, columns = self.axes(call)
        return [1] * rows.positions, [1] * columns.positions

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if len(call.operands["data_in_0"].shape) != self.dimensions + 2:
            problems.append(no_batch(self.dimensions + 2))
        if problems:
            return problems
        factor = int(self._factors(call).max())
        bits = self._sum_width(call) + factor.bit_length()
        if factor.bit_length() > MAX_WIDTH_BITS:
            return [f"it divides by numbers whose common multiple has {factor.bit_length()} bits"]
        data = fixed(call.operands["data_in_0"])
        bits = self._quotient(call).width(bits) - data.width
        return too_wide(lambda data_in_0: bits + data_in_0.width, data_in_0=data)

    def reference(self, call: Call) -> Reference:
        data, result = fixed(call.operands["data_in_0"]), call.result
        gather = Gather(*self.axes(call), fill=data.minimum_code if self.maximum else 0)
        factors, quotient = self._factors(call), self._quotient(call)

        def compute(codes: Tensor) -> Tensor:
            windows = gather(codes)
            sums = windows.amax(2) if self.maximum else windows.sum(2)
            return quotient(sums * factors).reshape(-1, *result.shape[1:])

        return compute

    def orders(self, call: Call) -> dict[str, Order | None]:
        return image_orders(call)

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return [[("data_in_0", 0), ("data_out_0", 0)]]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return ONE_PIXEL

    def hardware(self, call: Call) -> Netlist:
        data, net = call.operands["data_in_0"], NetlistBuilder(call.ports)
        window = Window(*self.axes(call), data.tiles[1], 1)
        factors, width, factor = self._factors(call), 0, None
        if bool((factors != 1).any()):
            width = max(2, int(factors.max()).bit_length())
            natural = Fixed(width, 0, signed=False)
            spec = TensorSpec((factors.numel(), 1), call.result.dtype, natural)
            words = partial(spec.to_beats, factors)
            factor = net.memory("factor", RomSource.of(spec, words, hold=window.tiles))
        pad = fixed(data).minimum_code if self.maximum else 0
        image = SlidingWindow(window, call.ports["data_in_0"], pad_code=pad)
        shown = net.add(image, "window", data_in=net.input("data_in_0"))
        cell = self.reduction(
            call, Run(window.terms, 1), width, net.port(shown).beats or window.beats
        )
        return net.netlist(data_out_0=net.add(cell, data_in_0=shown, factor=factor))

    def reduction(self, call: Call, run: Run, factor_width: int = 0, beats: int = 0) -> Reduce:
        """Return the cell that reduces the pixels of a window, which lie where `run` says."""
        return reduce_cell(
            call.operands["data_in_0"],
            run,
            self._sum_width(call),
            self._quotient(call),
            maximum=self.maximum,
            factor_width=factor_width,
            beats=beats,
        )

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        if len(call.operands["data_in_0"].shape) != self.dimensions + 2:
            return None
        return exact_quotient(
            fixed(call.operands["data_in_0"]), 1, self._divisors(call)[1], fraction
        )

    def added(self, call: Call) -> Iterable[tuple[Mapping[str, int], int]]:
        rows, columns = self.axes(call)
        count = 1 if self.maximum else rows.kernel * columns.kernel
        divisors, _ = self._divisors(call)
        return [({"data_in_0": count}, divisor) for divisor in sorted(set(divisors.tolist()))]

    def operations(self, call: Call) -> int:
        rows, columns = self.axes(call)
        return call.result.elements * rows.kernel * columns.kernel

    def _divisors(self, call: Call) -> tuple[Tensor, int]:
        """Return the divisor of every position, and their common multiple."""
        rows, columns = self.counts(call)
        divisors = torch.tensor(rows)[:, None] * torch.tensor(columns)
        return divisors.flatten(), lcm(*rows) * lcm(*columns)

    def _factors(self, call: Call) -> Tensor:
        divisors, common = self._divisors(call)
        return common // divisors

    def _quotient(self, call: Call) -> Quotient:
        data = fixed(call.operands["data_in_0"])
        return Quotient(data.frac_width, self._divisors(call)[1], fixed(call.result))

    def _sum_width(self, call: Call) -> int:
        data = fixed(call.operands["data_in_0"])
        rows, columns = self.axes(call)
        terms = 1 if self.maximum else rows.kernel * columns.kernel
        return data.width + (not data.signed) + (terms - 1).bit_length()


class SlidingPool(Pool):
    """A pool with kernel, stride, padding and dilation."""

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        vertical, horizontal = (
            Axis.sliding(size, kernel, stride, dilation, before, positions)
            for size, kernel, stride, dilation, before, positions in self.sides(call)
        )
        return vertical, horizontal

    def sides(self, call: Call) -> list[tuple[int, int, int, int, int, int]]:
        """Return (size, kernel, stride, dilation, padding, positions) of both axes."""
        data, result = call.operands["data_in_0"], call.result
        sizes = [(1, *spec.shape[2:])[-2:] for spec in (data, result)]
        attributes = call.attributes
        kernel = pair(attributes["kernel_size"], self.dimensions, 1)
        stride = pair(attributes["stride"] or attributes["kernel_size"], self.dimensions, 1)
        dilation = pair(attributes.get("dilation", 1), self.dimensions, 1)
        padding = pair(attributes["padding"], self.dimensions, 0)
        return [
            (sizes[0][i], kernel[i], stride[i], dilation[i], padding[i], sizes[1][i])
            for i in (0, 1)
        ]


# The volume's dimension, 0 to 2, that is an image's height, and its width; None for one that stays.
Dims = Sequence[int | None]


def refuse_shape(call: Call) -> list[str]:
    """Refuse what is no batch of volumes."""
    return volume_problems(call.operands["data_in_0"].shape)


def pooled(call: Call, volume: Tensor, pool: Callable[[Tensor, Dims], Tensor]) -> Tensor:
    """Return the pool of a volume: those of its frames, and over them.

    Args:
        call: the pool.
        volume: stands for the operand.
        pool: of an image, with the dimensions of the volume that it has.
    """
    result = call.result.shape
    return separately(
        volume,
        call.operands["data_in_0"].shape,
        lambda image: pool(image, (1, 2)),
        (result[3], result[4]),
        lambda image: pool(image, (0, None)),
        result[2],
    )


def argument(call: Call, key: str, dims: Dims, default: int) -> list[int]:
    """Return an argument for the dimensions of an image."""
    value = call.attributes.get(key)
    values = triple(default if value is None else value, default)
    return [default if dim is None else values[dim] for dim in dims]


def strides(call: Call, dims: Dims) -> list[int]:
    """Return the strides, which are the kernel's sizes where they are left out."""
    return argument(call, "stride" if call.attributes["stride"] else "kernel_size", dims, 1)


def positions(call: Call, dims: Dims) -> list[int]:
    """Return the size of an image's pool."""
    depth, height, width = call.result.shape[2:]
    return [height * width if dim is None else (depth, height, width)[dim] for dim in dims]
