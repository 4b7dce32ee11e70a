"""The number formats that keep a model for the least hardware, found by measurement."""

from mase_hw.precision.fit import fit_formats
from mase_hw.precision.fitted import Fitted, Row
from mase_hw.precision.goal import Goal

__all__ = ["Fitted", "Goal", "Row", "fit_formats"]
