"""Measurements that users of the flow make first: compiling, fusing, MXINT8, and the formats.

Each `profile_*` function returns a `Report` with tables, notes and a figure; `mase-hw profile`
prints and saves it.
"""

from mase_hw.kernels.profile._measure import interleaved
from mase_hw.kernels.profile._report import Report, Table

__all__ = ["Report", "Table", "interleaved"]
