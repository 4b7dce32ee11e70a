"""The geometry of streams: how tensors are cut into beats, windows over images, orders of beats."""

from mase_hw.geometry.tensor import Order, TensorSpec

__all__ = ["Order", "TensorSpec"]
