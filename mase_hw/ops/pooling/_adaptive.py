"""Pooling over windows that share an image out evenly.

Position `q` of `n` covers pixels `floor(q * size / n)` to `ceil((q + 1) * size / n) - 1`.
"""

from __future__ import annotations

from mase_hw.cells import Netlist
from mase_hw.geometry.runs import Run
from mase_hw.geometry.window import OUTSIDE, Axis, image_size
from mase_hw.ops._base import Call
from mase_hw.ops.pooling._pool import Pool


class AdaptivePool(Pool):
    """Windows of different sizes are filled up with pixels outside, which do not count.

    A single window over the whole image needs no buffer: its pixels are reduced as they come.
    """

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        _, *sizes = image_size(call.operands["data_in_0"])
        _, *positions = image_size(call.result)
        return shared(sizes[0], positions[0]), shared(sizes[1], positions[1])

    def hardware(self, call: Call) -> Netlist:
        """Return a window and a reduction, or the reduction alone."""
        if any(size > 1 for size in call.result.shape[2:]):
            return super().hardware(call)
        _, rows, columns = image_size(call.operands["data_in_0"])
        pixels = Run(rows * columns, call.result.tiles[1])
        return Netlist.single(call.ports, self.reduction(call, pixels))


def shared(size: int, positions: int) -> Axis:
    """Return windows that share a dimension out."""
    windows = [
        list(range(q * size // positions, -(-(q + 1) * size // positions)))
        for q in range(positions)
    ]
    longest = max(len(window) for window in windows)
    return Axis.of(size, [w + [OUTSIDE] * (longest - len(w)) for w in windows])
