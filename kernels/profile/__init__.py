"""Measurements that users of the flow make first: compiling, fusing, MXINT8, and the formats.

Each `profile_*` function returns a `Report` with tables, notes and mostly a figure, which
`mase-hw profile` prints and saves.
"""

from mase_hw.kernels.profile._measure import interleaved
from mase_hw.kernels.profile._report import Report, Row, Table

__all__ = ["Report", "Row", "Table", "interleaved"]
