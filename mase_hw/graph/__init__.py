"""Capture: models as graphs of ATen operators with typed metadata."""

from mase_hw.graph._dense import check_finite
from mase_hw.graph.loader import load_pt2
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import (
    CommonMetadata,
    HardwareMetadata,
    MaseMetadata,
    SoftwareMetadata,
    SourceLocation,
    ValueRange,
)
from mase_hw.graph.nodes import common, metadata, update
from mase_hw.graph.trace import trace

__all__ = [
    "CommonMetadata",
    "HardwareMetadata",
    "MaseGraph",
    "MaseMetadata",
    "SoftwareMetadata",
    "SourceLocation",
    "ValueRange",
    "check_finite",
    "common",
    "load_pt2",
    "metadata",
    "trace",
    "update",
]
