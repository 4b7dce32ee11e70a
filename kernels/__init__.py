"""Fast kernels for the number formats, and measurements of what they save."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mase_hw.kernels.mxint.dispatch import Implementation


def implementations() -> dict[str, tuple[Implementation, ...]]:
    """Return the implementations of every format, best first, and why one cannot run here.

    The first call builds the CPU kernels when they are not in the cache.
    """
    from mase_hw.kernels.mxint import dispatch

    return {"mxint8": dispatch.implementations()}
