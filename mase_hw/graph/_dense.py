"""The tensors that a graph may hold: dense, and of finite real numbers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from mase_hw.errors import CaptureError
from mase_hw.graph.mase_graph import MaseGraph


def check_dense(tensor: Tensor, what: str) -> None:
    """Raise unless a tensor holds its own numbers, one at every place of its shape.

    Raises:
        CaptureError: saying that `what` is sparse, nested, quantized, without values, or of a class
            that computes otherwise.
    """
    kind, fix = "", "only dense real tensors are accepted"
    if tensor.is_nested:
        kind, fix = "nested", f"{fix}: pad it"
    elif tensor.layout is not torch.strided:
        kind, fix = str(tensor.layout).removeprefix("torch."), f"{fix}: use its to_dense()"
    elif tensor.is_quantized:
        kind, fix = "quantized", f"{fix}: use its dequantize(), and give it a number format"
    elif tensor.device.type == "meta":
        kind, fix = "on the meta device, without values", "load its values"
    elif is_traceable_wrapper_subclass(tensor):
        kind = f"of the class {type(tensor).__module__}.{type(tensor).__qualname__}"
        fix = f"{fix}: capture the model without it, and give number formats to quantize"
    if kind:
        raise CaptureError(f"{what} is {kind}; {fix}")


def check_finite(mg: MaseGraph) -> None:
    """Raise unless every parameter and buffer is finite.

    Raises:
        CaptureError: naming the first tensor, index and value that is not.
    """
    for node in mg.nodes:
        if node.op != "get_attr":
            continue
        value = mg.constant(node)
        if value.itemsize == 1:
            # Torch computes little with floats of eight bits.
            value = value.float()
        if not value.is_floating_point() or not value.numel():
            continue
        if not bool(torch.stack(torch.aminmax(value)).isfinite().all()):
            index = (~value.isfinite()).nonzero()[0].tolist()
            raise CaptureError(
                f"{node.target}{index} of {mg.name} is {value[tuple(index)].item()}; "
                "weights must be finite numbers"
            )
