"""What convolutions share: geometry, exact reference, and weights in the order of use.

`y[o, q] = cast(b[o] + sum_{c, k} w[o, c, k] x[c, place(q, k)])`; a place outside the image counts
as zero. A signal is an image of one row. `_products` chooses the arithmetic.

The terms of a sum are the pixels of the window in row-major order, each with its channels. Blocks
with a shared scale lie along the channels of one pixel, of the image (dimension 1) as of the
weights; a number of channels that the block size does not divide ends with a shorter block. A pixel
outside the image is zero: the code 0 of a block (zeros in the smallest scale), a term that does not
count where a format has no zero.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from mase_hw.cells import Netlist, NetlistBuilder
from mase_hw.cells.sliding_window import SlidingWindow
from mase_hw.formats import BLOCKS, SCALARS, SCALED
from mase_hw.geometry import Order, TensorSpec
from mase_hw.geometry.window import ONE_PIXEL, Axis, Gather, Window
from mase_hw.ops._base import Call, Operator, Reference
from mase_hw.ops._interfaces import Configured, Judged, Numeric, Ordered, Tiled, Weighted
from mase_hw.ops.convolution._volumes import image_orders, no_batch
from mase_hw.ops.products._fixed_product import FixedProduct
from mase_hw.ops.products._product import OPTIONS, Feed, Product
from mase_hw.ops.products._products import product_of
from mase_hw.ops.products._scaled_product import ScaledProduct

# Arithmetic on integers, which sums groups of channels apart, and several pixels at a time.
GROUPED = (FixedProduct, ScaledProduct)


class Convolution(Operator, Weighted, Configured, Numeric, Ordered, Tiled, Judged):
    """A convolution with constant weights.

    Subclasses say which pixel each element of the window shows, and how torch lays the weights out.
    """

    channel_axis = 1
    dimensions: ClassVar[int]
    scales = True
    options = OPTIONS

    @abstractmethod
    def axes(self, call: Call) -> tuple[Axis, Axis]:
        """Return the vertical and the horizontal axis."""

    @abstractmethod
    def filters(self, call: Call, weight: Tensor) -> Tensor:
        """Return weights as `[results, channels of a group, height, width]`."""

    families = SCALARS | BLOCKS | SCALED

    def block_axis(self, name: str) -> int:
        return -1 if name == "bias" else -1 - self.dimensions

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if len(call.operands["data_in_0"].shape) != self.dimensions + 2:
            problems.append(no_batch(self.dimensions + 2))
        if "weight" not in call.constants:
            return [
                *problems,
                "the weight is computed by the model; only constant weights are legal",
            ]
        return problems or self._illegal(call) or self._product(call).refusals()

    def notes(self, call: Call) -> list[str]:
        return self._product(call).notes()

    def _illegal(self, call: Call) -> list[str]:
        channels, results = call.operands["data_in_0"].shape[1], call.result.shape[1]
        groups = int(call.attributes["groups"])
        if groups < 1 or channels % groups or results % groups:
            return [f"{groups} groups do not divide {channels} channels and {results} results"]
        if min(call.result.shape) < 1:
            return ["its kernel is larger than the padded input"]
        if groups != 1 and not isinstance(self._product(call), GROUPED):
            data = call.operands["data_in_0"].quantized
            return [f"its groups are {groups}; with {data} they must be 1"]
        return []

    def reference(self, call: Call) -> Reference:
        product, gather = self._product(call), Gather(*self.axes(call))
        groups, shape = int(call.attributes["groups"]), call.result.shape[1:]
        if isinstance(product, GROUPED):
            grouped = product.grouped(groups)

            def compute(codes: Tensor) -> Tensor:
                windows = gather(product.plain(codes))
                terms = windows.reshape(len(codes), groups, -1, windows.shape[-1])
                integers, exponents = grouped(terms)
                return product.rounded(integers.reshape(-1, *shape), exponents)

            return compute
        sums = product.sums()

        def compute_rows(codes: Tensor) -> Tensor:
            windows = gather(product.plain(codes))
            rows = windows.permute(0, 3, 2, 1).flatten(0, 1).flatten(1)
            integers, exponents = sums(rows)
            if exponents.dim():
                exponents = _images(exponents.expand(integers.shape), len(codes), shape)
            return product.rounded(_images(integers, len(codes), shape), exponents)

        return compute_rows

    def orders(self, call: Call) -> dict[str, Order | None]:
        return image_orders(call)

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return [[("data_in_0", 0), ("data_out_0", 0)]] if self._separate(call) else []

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return ONE_PIXEL

    def hardware(self, call: Call) -> Netlist:
        data, product, window = call.operands["data_in_0"], self._product(call), self.window(call)
        in_lanes, out_lanes = self._lanes(call)
        dot_lanes = window.elements * self._element_lanes(call)
        net = NetlistBuilder(call.ports)
        image = product.prepare(net, net.input("data_in_0"))
        sliding = SlidingWindow(window, net.port(image), product.marks)
        elements = net.add(sliding, "window", data_in=image)
        feed = Feed(
            terms=window.terms,
            group_terms=window.block_tiles if window.elements == 1 else window.terms,
            tail=data.size[1] - (window.tiles - 1) * in_lanes
            if window.elements == 1
            else dot_lanes,
            rows=1,
            in_lanes=dot_lanes,
            out_lanes=out_lanes,
            beats=net.port(elements).beats or window.beats,
            separate=self._separate(call),
            windows=True,
        )
        whole = call.operands["weight"]
        shape = (call.result.shape[1], window.terms * dot_lanes)
        weight = TensorSpec(shape, whole.dtype, whole.format, (out_lanes, dot_lanes), whole.order)
        sums = product.accumulate(
            net, elements, feed, weight, lambda codes: self._tiled_weight(call, codes)
        )
        return net.netlist(data_out_0=sums)

    def unrolling(self, call: Call) -> dict[str, range]:
        """In integers a sum takes whole tiles of channels, at most the whole window at a time."""
        if not isinstance(self._product(call), GROUPED):
            return {}
        lanes, window = self._element_lanes(call), self._window(call)
        return {"weight": range(lanes, lanes * window.block_elements + 1, lanes)}

    def window(self, call: Call) -> Window:
        """Return the window that slides over the image."""
        elements = max(1, call.operands["weight"].parallelism[1] // self._element_lanes(call))
        return self._window(call, elements)

    def _window(self, call: Call, elements: int = 1) -> Window:
        rows, columns = self.axes(call)
        tiles, out_tiles = call.operands["data_in_0"].tiles[1], call.result.tiles[1]
        if self._separate(call):
            return Window(rows, columns, tiles, 1, elements=elements)
        groups = self._block_groups(call)
        return Window(rows, columns, tiles, tiles // groups, out_tiles // groups, elements)

    def repeats(self, call: Call) -> dict[str, int]:
        return {"weight": call.result.elements // call.result.shape[1]}

    def operations(self, call: Call) -> int:
        return 2 * call.result.elements * int(np.prod(self._filter_shape(call)))

    @staticmethod
    def _lanes(call: Call) -> tuple[int, int]:
        return call.operands["data_in_0"].parallelism[1], call.result.parallelism[1]

    def _element_lanes(self, call: Call) -> int:
        """Return how many channels of an element of the window a result sums."""
        return 1 if self._separate(call) else self._lanes(call)[0]

    @staticmethod
    def _separate(call: Call) -> bool:
        channels, results = call.operands["data_in_0"].shape[1], call.result.shape[1]
        return channels == results == int(call.attributes["groups"]) > 1

    def _block_groups(self, call: Call) -> int:
        """Return how many groups of tiles are convolved apart.

        Groups that do not consist of whole tiles on both sides are convolved together, with zeros
        between them.
        """
        groups = int(call.attributes["groups"])
        in_lanes, out_lanes = self._lanes(call)
        channels, results = call.operands["data_in_0"].shape[1], call.result.shape[1]
        whole = channels // groups % in_lanes == 0 and results // groups % out_lanes == 0
        return groups if whole else 1

    def _filter_shape(self, call: Call) -> tuple[int, ...]:
        channels, groups = call.operands["data_in_0"].shape[1], int(call.attributes["groups"])
        rows, columns = self.axes(call)
        return channels // groups, rows.kernel, columns.kernel

    def _filters(self, call: Call, weight: Tensor) -> Tensor:
        return self.filters(call, weight).reshape(call.result.shape[1], *self._filter_shape(call))

    def _product(self, call: Call) -> Product:
        def matrix(weight: Tensor) -> Tensor:
            filters = self._filters(call, weight)
            # In the order in which `reference` gathers terms.
            return (filters if integers else filters.permute(0, 2, 3, 1)).flatten(1)

        product = product_of(call, matrix, call.operands["data_in_0"].shape[1], 1)
        integers = isinstance(product, GROUPED)
        return product

    def _tiled_weight(self, call: Call, codes: Tensor) -> Tensor:
        """Return weight codes as a matrix whose tiles, in row-major order, are used in turn."""
        weight, groups = self._filters(call, codes), int(call.attributes["groups"])
        if not self._separate(call) and self._block_groups(call) != groups:
            weight = _block_diagonal(weight, groups)
        window, lanes = self.window(call), self._element_lanes(call)
        results, channels = weight.shape[:2]
        padded = torch.nn.functional.pad(
            weight.permute(0, 2, 3, 1), (0, -channels % lanes)
        ).flatten(1)
        beyond = window.terms * window.elements - window.block_elements
        return torch.nn.functional.pad(padded, (0, beyond * lanes)).reshape(results, -1)


def _images(rows: Tensor, count: int, shape: tuple[int, ...]) -> Tensor:
    """Return results `[count, results, *space]` of rows `[count * places, results]`."""
    return rows.reshape(count, -1, shape[0]).transpose(1, 2).reshape(count, *shape)


def _block_diagonal(weight: Tensor, groups: int) -> Tensor:
    """Return the weights of one group that computes what `groups` do."""
    results, channels, *kernel = weight.shape
    full = weight.new_zeros(groups, results // groups, groups, channels, *kernel)
    for group in range(groups):
        full[group, :, group] = weight.reshape(groups, -1, channels, *kernel)[group]
    return full.reshape(results, groups * channels, *kernel)
