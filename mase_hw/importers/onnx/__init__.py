"""ONNX files as modules: every node is computed by functions of torch, by one file a family."""

from mase_hw.importers.onnx.module import OnnxModule, load_onnx

__all__ = ["OnnxModule", "load_onnx"]
