"""Padding of images and signals (torch.nn.functional.pad), in each of its four modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.geometry.tensor import Order
from mase_hw.geometry.window import Axis, image_size
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._interfaces import Ordered, Removable, Rewritten
from mase_hw.ops.convolution._volumes import image_orders, separately
from mase_hw.ops.movement._moves import GatherRows


class Pad(GatherRows, Rewritten, Removable, Ordered):
    """Pads the space of images and signals; negative padding crops."""

    name = "pad"
    targets = ("aten.pad.default", "aten.constant_pad_nd.default")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Other dimensions than an image's space are joined with constants, or cut.

        A volume is padded frame by frame, and then over its depth.
        """
        if self._in_space(call):
            return None
        if self._mode(call) != "constant":
            return self._volume(call, operands) if self._in_volume(call) else None
        data, shape = operands["data_in_0"], list(call.operands["data_in_0"].shape)
        value = float(call.attributes.get("value") or 0.0)
        amounts = self._amounts(call)
        for position in range(0, len(amounts), 2):
            dim = len(shape) - 1 - position // 2
            low, high = (max(0, -amount) for amount in amounts[position : position + 2])
            if low or high:
                data = aten.slice.Tensor(data, dim, low, shape[dim] - high)
                shape[dim] -= low + high
            sides = [[*shape[:dim], max(0, n), *shape[dim + 1 :]] for n in amounts[position:][:2]]
            parts = [aten.full.default(size, value) for size in sides if size[dim]]
            if parts:
                parts.insert(int(amounts[position] > 0), data)
                data = torch.ops.mase.cat.default(parts, dim)
                shape[dim] += sum(size[dim] for size in sides)
        return None if data is operands["data_in_0"] else [data]

    def is_identity(self, call: Call) -> bool:
        return not any(self._amounts(call))

    def _volume(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """Return the padding of a volume, in a mode that copies elements."""
        amounts = [*self._amounts(call), 0, 0, 0, 0][:6]
        mode, result = self._mode(call), call.result.shape

        def pad(image: Tensor, before: Sequence[int]) -> Tensor:
            return aten.pad.default(image, list(before), mode) if any(before) else image

        made = separately(
            operands["data_in_0"],
            call.operands["data_in_0"].shape,
            lambda image: pad(image, amounts[:4]),
            (result[3], result[4]),
            lambda image: pad(image, [0, 0, *amounts[4:]]),
            result[2],
        )
        return [made]

    def _in_volume(self, call: Call) -> bool:
        return len(call.operands["data_in_0"].shape) == 5 and not any(self._amounts(call)[6:])

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if not self._in_space(call):
            problems.append(
                f"mode {self._mode(call)} pads the dimensions behind the channels of [batch, "
                "channels, ((depth,) height,) width] only; mode constant pads any"
            )
        return problems

    def _in_space(self, call: Call) -> bool:
        rank = len(call.operands["data_in_0"].shape)
        return 3 <= rank <= 4 and not any(self._amounts(call)[2 * (rank - 2) :])

    def orders(self, call: Call) -> dict[str, Order | None]:
        return image_orders(call)

    def fill(self, call: Call) -> int:
        value = torch.tensor(float(call.attributes.get("value") or 0.0))
        return int(call.result.quantized.encode(value))

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        _, *sizes = image_size(call.operands["data_in_0"])
        amounts = [*self._amounts(call), 0, 0, 0, 0]
        mode = self._mode(call)
        vertical, horizontal = (
            _axis(size, before, after, mode)
            for size, before, after in ((sizes[0], *amounts[2:4]), (sizes[1], *amounts[:2]))
        )
        return vertical, horizontal

    def copy(self, call: Call, codes: Tensor) -> Tensor:
        amounts, mode = self._amounts(call), self._mode(call)
        if mode == "constant":
            return torch.nn.functional.pad(codes, amounts, value=self.fill(call))
        return torch.nn.functional.pad(codes.double(), amounts, mode=mode).to(torch.int64)

    def examples(self) -> list[Example]:
        pad = torch.nn.functional.pad
        return [
            example(lambda x: pad(x, (1, 2, 0, 1)), (2, 3, 2, 4)),
            example(lambda x: pad(x, (-1, 1), value=0.75), (2, 2, 5)),
            example(lambda x: pad(x, (2, 1, 1, 2), mode="reflect"), (2, 2, 3, 4)),
            example(lambda x: pad(x, (2, 1), mode="replicate"), (2, 3, 4)),
            example(lambda x: pad(x, (1, 1, 1, 1), mode="circular"), (2, 2, 3, 3)),
            example(lambda x: pad(x, (0, 0, 0, 0, 1, 2)), (2, 2, 2, 2)),
            example(lambda x: pad(x, (1, 0, 0, 1, 1, 1), mode="replicate"), (2, 1, 2, 3, 2)),
            example(lambda x: pad(x, (-1, 2), value=0.5), (2, 5)),
        ]

    @staticmethod
    def _amounts(call: Call) -> list[int]:
        given = call.attributes.get("pad", call.attributes.get("padding"))
        return [int(amount) for amount in given or ()]

    @staticmethod
    def _mode(call: Call) -> str:
        return str(call.attributes.get("mode", "constant"))


def _axis(size: int, before: int, after: int, mode: str) -> Axis:
    indices = torch.arange(-before, size + after)
    if mode == "replicate":
        indices = indices.clamp(0, size - 1)
    elif mode == "circular":
        indices = indices % size
    elif mode == "reflect":
        indices = (size - 1 - (indices.abs() - (size - 1)).abs()).abs()
    return Axis.of(size, indices[:, None].tolist())
