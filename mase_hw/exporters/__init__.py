"""Exporters: graphs of ours as files of other tools, and the two side by side."""

from mase_hw.exporters.comparison import Comparison, compare
from mase_hw.exporters.onnx import export_onnx

__all__ = ["Comparison", "compare", "export_onnx"]
