"""The larger and the smaller of two numbers."""

from __future__ import annotations

import torch

from mase_hw.ops.arithmetic._extremum import Extremum

EXTREMA = (
    Extremum("maximum", "maximum aten.max.other", torch.maximum),
    Extremum("minimum", "minimum fmin aten.min.other", torch.minimum),
)
