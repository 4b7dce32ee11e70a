"""The number formats that keep a model for the least hardware, measured on samples."""

from mase_hw.precision.evaluation import Goal, Row
from mase_hw.precision.fit import fit_formats
from mase_hw.precision.fitted import Fitted
from mase_hw.precision.train import train_formats

__all__ = ["Fitted", "Goal", "Row", "fit_formats", "train_formats"]
