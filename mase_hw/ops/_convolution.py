"""What convolutions share: geometry, exact reference, weights in the order of use, and timing.

`y[o, q] = cast(b[o] + sum_{c, k} w[o, c, k] x[c, place(q, k)])`, every product and sum exact,
rounded once; a place outside the image counts as zero. A signal is an image of one row.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from mase_hw.ops._accumulate import Bounds, exact_dtype, width_for
from mase_hw.ops._base import Call, Cycles, Hardware, Operator, Reference, Source, one_per_cycle
from mase_hw.ops._fixed import fixed
from mase_hw.ops._tensor import Order, TensorSpec
from mase_hw.ops._window import ONE_PIXEL, Axis, Gather, Window, image_orders, shared


class Convolution(Operator):
    """A convolution with constant weights.

    Subclasses say which pixel each element of the window shows, and how torch lays the weights out.
    """

    dimensions: ClassVar[int]
    scales: ClassVar[bool] = True

    @abstractmethod
    def axes(self, call: Call) -> tuple[Axis, Axis]:
        """Return the vertical and the horizontal axis."""

    @abstractmethod
    def filters(self, call: Call, weight: Tensor) -> Tensor:
        """Return weights as `[results, channels of a group, height, width]`."""

    def problems(self, call: Call) -> list[str]:
        """Also refuse weights that stream, a missing batch dimension, and sums beyond 62 bits."""
        found = super().problems(call)
        if len(call.operands["data_in_0"].shape) != self.dimensions + 2:
            found.append(f"its input has no batch dimension; give it {self.dimensions + 2} of them")
        if "weight" not in call.constants:
            return [*found, "the weight is computed by the model; only constant weights are legal"]
        if not found:
            found += self._illegal(call)
        if not found and self._widest_sum(call) > 62:
            found.append("sums may exceed 62 bits; use narrower operands")
        return found

    def _illegal(self, call: Call) -> list[str]:
        channels, results = call.operands["data_in_0"].shape[1], call.result.shape[1]
        groups = int(call.attributes["groups"])
        if groups < 1 or channels % groups or results % groups:
            return [f"{groups} groups do not divide {channels} channels and {results} results"]
        if min(call.result.shape) < 1:
            return ["its kernel is larger than the padded input"]
        return []

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes, in the narrowest dtype that is exact."""
        weight, bias, fraction = self._aligned(call)
        dtype = exact_dtype(self._bounds(call, weight, bias))
        result, groups = call.result, int(call.attributes["groups"])
        gather = Gather(*self.axes(call))
        start = 0 if bias is None else bias.reshape(-1, 1)
        rows = weight.reshape(groups, -1, weight[0].numel()).to(dtype)

        def compute(codes: Tensor) -> Tensor:
            windows = gather(codes.to(dtype)).reshape(len(codes), groups, rows.shape[2], -1)
            sums = (rows @ windows).to(torch.int64).flatten(1, 2) + start
            return result.quantized.from_fixed(sums, fraction).reshape(-1, *result.shape[1:])

        return compute

    def orders(self, call: Call) -> dict[str, Order | None]:
        """Channels last, on both sides."""
        return image_orders(call)

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        """Channels and results are free of each other, unless each channel is for itself."""
        return [[("data_in_0", 0), ("data_out_0", 0)]] if self._separate(call) else []

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        """One pixel at a time."""
        return ONE_PIXEL

    def hardware(self, call: Call) -> Hardware:
        """Return an instance with its tables; weights, and bias if any, come from ROMs."""
        window = self.window(call)
        codes = {"weight": self._tiled_weight(call)}
        if "bias" in call.constants:
            codes["bias"] = call.constant_codes("bias")
        sources = [
            Source(name, spec.to_beats(codes[name]))
            for name, spec in self.constant_streams(call).items()
        ]
        return Hardware(
            "mase_convolution_fixed",
            {
                "HAS_BIAS": int("bias" in call.constants),
                "SEPARATE": int(self._separate(call)),
                "ACCUMULATOR_WIDTH": self._accumulator(call),
                "ELEMENTS": window.elements,
                **window.parameters(),
            },
            sources,
            window.tables(),
            absent=() if "bias" in call.constants else ("bias",),
        )

    def constant_streams(self, call: Call) -> dict[str, TensorSpec]:
        """Weights come as tiles of results x elements of the window, biases as tiles."""
        out_lanes, terms = self._lanes(call)[1], self.window(call).terms
        dot_lanes = self._dot_lanes(call)
        specs = {
            "weight": replace(
                call.operands["weight"],
                shape=(call.result.shape[1], terms * dot_lanes),
                parallelism=(out_lanes, dot_lanes),
            )
        }
        if "bias" in call.constants:
            specs["bias"] = call.operands["bias"].with_parallelism(1, out_lanes)
        return specs

    def unrolling(self, call: Call) -> dict[str, range]:
        """A sum takes whole tiles of channels, at most the whole window at a time."""
        lanes, window = self._element_lanes(call), self._window(call)
        return {"weight": range(lanes, lanes * window.block_elements + 1, lanes)}

    def window(self, call: Call) -> Window:
        """Return the window that slides over the image."""
        elements = max(1, call.operands["weight"].parallelism[1] // self._element_lanes(call))
        return shared(replace(self._window(call), elements=elements))

    def _window(self, call: Call) -> Window:
        rows, columns = self.axes(call)
        tiles, out_tiles = call.operands["data_in_0"].tiles[1], call.result.tiles[1]
        if self._separate(call):
            return Window(rows, columns, tiles, 1)
        groups = self._block_groups(call)
        return Window(rows, columns, tiles, tiles // groups, out_tiles // groups)

    def multipliers(self, call: Call) -> int:
        """One for each pair of a result and an element of its sum."""
        return self._lanes(call)[1] * self._dot_lanes(call)

    def work_cycles(self, call: Call) -> int:
        """Positions x beats of the window x tiles, or the pixels that enter where they are more."""
        return self.window(call).work_cycles

    def schedule(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """A result follows the last element of its window."""
        window = self.window(call)
        met = self._met(call, arrivals)
        levels = (self._dot_lanes(call) - 1).bit_length()
        result: Cycles = met.reshape(-1, window.terms)[:, -1] + 3 + levels
        return result

    def consumption(self, call: Call, arrivals: Mapping[str, Cycles]) -> dict[str, Cycles]:
        """Pixels are stored as they come; weights are taken where they meet them."""
        stored = one_per_cycle(arrivals["data_in_0"])
        return {"data_in_0": stored, "weight": self._met(call, arrivals)}

    def room(self, call: Call, used: Mapping[str, Cycles], delay: int) -> dict[str, Cycles]:
        """What the buffer of the window has room for, and the sums behind it."""
        beats = call.operands["data_in_0"].beats
        return {"data_in_0": self.window(call).room(beats, self.held(call))}

    def held(self, call: Call) -> int:
        """Return the sums that wait when no result goes: one in the sum, one in a register."""
        return 2

    def repeats(self, call: Call) -> dict[str, int]:
        """Every position takes all weights."""
        return {"weight": call.result.elements // call.result.shape[1]}

    def _met(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """Return when each tile of weights meets its pixels."""
        shown = self.window(call).schedule(arrivals["data_in_0"])
        if "weight" not in arrivals:
            return shown
        return one_per_cycle(np.maximum(shown, arrivals["weight"]))

    def operations(self, call: Call) -> int:
        """Two for each multiply-accumulate."""
        return 2 * call.result.elements * int(np.prod(self._filter_shape(call)))

    @staticmethod
    def _lanes(call: Call) -> tuple[int, int]:
        return call.operands["data_in_0"].parallelism[1], call.result.parallelism[1]

    def _element_lanes(self, call: Call) -> int:
        """Return how many channels of an element of the window a result sums."""
        return 1 if self._separate(call) else self._lanes(call)[0]

    def _dot_lanes(self, call: Call) -> int:
        """Return how many products a result sums in a cycle."""
        return self.window(call).elements * self._element_lanes(call)

    @staticmethod
    def _separate(call: Call) -> bool:
        """Return true when every result has a channel of its own."""
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

    def _filters(self, call: Call) -> Tensor:
        weight = self.filters(call, call.constant_codes("weight"))
        return weight.reshape(call.result.shape[1], *self._filter_shape(call))

    def _tiled_weight(self, call: Call) -> Tensor:
        """Return weight codes as a matrix whose tiles, in row-major order, are used in turn."""
        weight, groups = self._filters(call), int(call.attributes["groups"])
        if not self._separate(call) and self._block_groups(call) != groups:
            weight = _block_diagonal(weight, groups)
        window, lanes = self.window(call), self._element_lanes(call)
        results, channels = weight.shape[:2]
        padded = torch.nn.functional.pad(
            weight.permute(0, 2, 3, 1), (0, -channels % lanes)
        ).flatten(1)
        beyond = window.terms * window.elements - window.block_elements
        return torch.nn.functional.pad(padded, (0, beyond * lanes)).reshape(results, -1)

    def _aligned(self, call: Call) -> tuple[Tensor, Tensor | None, int]:
        """Return weight and bias codes aligned to the accumulator, and its fraction bits."""
        data, weight = fixed(call.operands["data_in_0"]), fixed(call.operands["weight"])
        fraction = data.frac_width + weight.frac_width
        codes = self._filters(call)
        if "bias" not in call.constants:
            return codes, None, fraction
        bias = fixed(call.operands["bias"])
        aligned = max(fraction, bias.frac_width)
        return (
            codes << (aligned - fraction),
            call.constant_codes("bias") << (aligned - bias.frac_width),
            aligned,
        )

    @staticmethod
    def _bounds(call: Call, weight: Tensor, bias: Tensor | None) -> Bounds:
        data, flat = fixed(call.operands["data_in_0"]), weight.flatten(1)
        low, high = flat * data.minimum_code, flat * data.maximum_code
        return Bounds.of_sums(torch.minimum(low, high), torch.maximum(low, high), bias)

    def _widest_sum(self, call: Call) -> int:
        """Return the bits that sums take whatever the weights are."""
        data, weight = fixed(call.operands["data_in_0"]), fixed(call.operands["weight"])
        terms = int(np.prod(self._filter_shape(call)))
        width = data.width + weight.width + terms.bit_length()
        if "bias" not in call.constants:
            return width
        bias = fixed(call.operands["bias"])
        fraction = data.frac_width + weight.frac_width
        width += max(0, bias.frac_width - fraction)
        return max(width, bias.width + max(0, fraction - bias.frac_width)) + 1

    def _accumulator(self, call: Call) -> int:
        weight, bias, _ = self._aligned(call)
        return width_for(self._bounds(call, weight, bias))


def _block_diagonal(weight: Tensor, groups: int) -> Tensor:
    """Return the weights of one group that computes what `groups` do."""
    results, channels, *kernel = weight.shape
    full = weight.new_zeros(groups, results // groups, groups, channels, *kernel)
    for group in range(groups):
        full[group, :, group] = weight.reshape(groups, -1, channels, *kernel)[group]
    return full.reshape(results, groups * channels, *kernel)
