"""Mean of a window (torch.nn.functional.avg_pool2d), an exact sum divided and rounded once."""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops.pooling._pool import SlidingPool


class AvgPool2d(SlidingPool):
    """Divides by `divisor_override`, by the window with its padding, or by the pixels inside."""

    name = "avg_pool2d"
    targets = ("aten.avg_pool2d.default",)
    dimensions = 2

    def counts(self, call: Call) -> tuple[list[int], list[int]]:
        """Count the elements of every window, as torch does."""
        rows, columns = self.axes(call)
        divisor = call.attributes.get("divisor_override")
        if divisor:
            return [int(divisor)] * rows.positions, [1] * columns.positions
        if not call.attributes["count_include_pad"]:
            inside = [(axis.indices >= 0).sum(1).tolist() for axis in (rows, columns)]
            return inside[0], inside[1]
        # A window that hangs over the padding, as a rounded-up size makes it, is cut there.
        cut = [
            [
                min(position * stride - padding + kernel, size + padding)
                - (position * stride - padding)
                for position in range(positions)
            ]
            for size, kernel, stride, _, padding, positions in self.sides(call)
        ]
        return cut[0], cut[1]

    def examples(self) -> list[Example]:
        """Padding that is not counted; a divisor of one's own."""
        return [
            (
                nn.AvgPool2d(3, 2, padding=1, count_include_pad=False, ceil_mode=True),
                (example_values(2, 3, 4, 6),),
            ),
            (nn.AvgPool2d((1, 3), divisor_override=5), (example_values(2, 2, 2, 6),)),
        ]
