"""Pooling over windows that share an image out evenly.

Position `q` of `n` covers pixels `floor(q * size / n)` to `ceil((q + 1) * size / n) - 1`.
"""

from __future__ import annotations

from collections.abc import Mapping

from mase_hw.geometry.beats import Cycles
from mase_hw.geometry.window import OUTSIDE, Axis, image_size
from mase_hw.ops._base import Call, Hardware, Operator
from mase_hw.ops._pool import Pool
from mase_hw.ops._quotient import Quotient
from mase_hw.ops._reduce import Run


class AdaptivePool(Pool):
    """Windows of different sizes are filled up with pixels outside, which do not count.

    A single window over the whole image needs no buffer: its pixels are reduced as they come.
    """

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        """Share rows and columns out."""
        _, *sizes = image_size(call.operands["data_in_0"])
        _, *positions = image_size(call.result)
        return _shared(sizes[0], positions[0]), _shared(sizes[1], positions[1])

    def hardware(self, call: Call) -> Hardware:
        """Return a window, or a plain reduction."""
        run = self._run(call)
        if run is None:
            return super().hardware(call)
        return Hardware(
            "mase_reduce_fixed",
            {
                "MAXIMUM": int(self.maximum),
                "TERMS": run.terms,
                "INNER": run.inner,
                "SUM_WIDTH": self._sum_width(call),
                **self._quotient(call).parameters(),
            },
        )

    def work_cycles(self, call: Call) -> int:
        """Every pixel once, or a window's work."""
        data = call.operands["data_in_0"]
        return super().work_cycles(call) if self._run(call) is None else data.beats

    def schedule(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """A result follows its last pixel."""
        run = self._run(call)
        if run is None:
            return super().schedule(call, arrivals)
        quotient: Quotient = self._quotient(call)
        return run.schedule(arrivals["data_in_0"], 1) + quotient.stages

    def room(self, call: Call, used: Mapping[str, Cycles], delay: int) -> dict[str, Cycles]:
        """A register for each stage behind a single window."""
        if self._run(call) is None:
            return super().room(call, used, delay)
        return Operator.room(self, call, used, delay)

    def _run(self, call: Call) -> Run | None:
        """Return where the pixels of a single window lie, None when there are several."""
        data = call.operands["data_in_0"]
        if any(size > 1 for size in call.result.shape[2:]):
            return None
        tiles = data.tiles[1]
        return Run(data.beats // tiles, tiles, False)


def _shared(size: int, positions: int) -> Axis:
    windows = [
        list(range(q * size // positions, -(-(q + 1) * size // positions)))
        for q in range(positions)
    ]
    longest = max(len(window) for window in windows)
    return Axis.of(size, [w + [OUTSIDE] * (longest - len(w)) for w in windows])
