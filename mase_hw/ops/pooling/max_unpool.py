"""Maxima back at their places, with zeros between (torch.nn.MaxUnpool1d to 3d).

Windows are those that share the result out: each index is a place in the window of its own element.
An index that is none leaves its window zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import max_pool1d, max_pool2d, max_unpool1d, max_unpool2d

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops.convolution._images import no_batch


class MaxUnpool(Composite):
    """Elements and indices are repeated over their window; one place is the index."""

    name = "max_unpool"
    targets = ("aten.max_unpool2d.default", "aten.max_unpool3d.default")
    operand_names: Mapping[str, str] = {"self": "data_in_0", "indices": "data_in_1"}

    def problems(self, call: Call) -> list[str]:
        return self._refusal(call) or super().problems(call)

    @staticmethod
    def _refusal(call: Call) -> list[str]:
        given, made = call.operands["data_in_0"].shape, call.result.shape
        rank = 2 + len(call.attributes["output_size"])
        if len(given) != rank:
            return [no_batch(rank)]
        if any(size < count for size, count in zip(made[2:], given[2:], strict=True)):
            return [f"{list(given[2:])} elements do not fit into {list(made[2:])}"]
        return []

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        if self._refusal(call):
            return None
        given, made = call.operands["data_in_0"].shape, list(call.result.shape[2:])
        steps = [size // count for size, count in zip(made, given[2:], strict=True)]
        reached = [step * count for step, count in zip(steps, given[2:], strict=True)]
        places = torch.arange(prod(made)).reshape(1, 1, *made)
        for dim, size in enumerate(reached, start=2):
            places = places.narrow(dim, 0, size)
        values, indices = (
            _spread(operands[name], given, steps) for name in ("data_in_0", "data_in_1")
        )
        found = aten.where.ScalarOther(aten.eq.Tensor(indices, places.clone()), values, 0.0)
        behind = [size - count for size, count in zip(made, reached, strict=True)]
        pads = [item for rest in reversed(behind) for item in (0, rest)]
        return [aten.constant_pad_nd.default(found, pads, 0.0) if any(pads) else found]

    def examples(self) -> list[Example]:
        def signals(x: Tensor) -> Tensor:
            found, places = max_pool1d(x, 2, return_indices=True)
            return max_unpool1d(found, places, [2], output_size=[5])

        values = example_values(2, 3, 4, 6)
        found, places = max_pool2d(values, 2, return_indices=True)
        return [
            example(signals, (2, 2, 5)),
            example(lambda x, i: max_unpool2d(x, i, [2, 2]), found, places),
        ]


def _spread(data: Tensor, shape: Sequence[int], steps: Sequence[int]) -> Tensor:
    """Return elements repeated over their windows."""
    channels, *sizes = shape[1:]
    apart = [item for size in sizes for item in (size, 1)]
    whole = [item for size, step in zip(sizes, steps, strict=True) for item in (size, step)]
    data = aten.reshape.default(data, [-1, channels, *apart])
    data = aten.expand.default(data, [-1, channels, *whole])
    reached = [size * step for size, step in zip(sizes, steps, strict=True)]
    spread: Tensor = aten.reshape.default(data, [-1, channels, *reached])
    return spread
