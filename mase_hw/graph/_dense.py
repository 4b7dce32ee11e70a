"""The tensors that a graph may hold: dense, and of finite real numbers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from mase_hw.errors import CaptureError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import MaseMetadata
from mase_hw.graph.source import origin


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


# What to use in place of a dtype, beside floats of eight bits.
_KEPT = {torch.uint16: "int32", torch.uint32: "int64", torch.uint64: "int64"}
# What is the same without an operand that has no element.
_JOINS = ("aten.cat.default", "aten.concat.default", "mase.cat.default")


def check_values(module: GraphModule, names: Mapping[Node, str]) -> None:
    """Raise unless hardware could hold the results of every node.

    Args:
        module: a canonical graph, with the values that torch.export notes.
        names: what to call its nodes.

    Raises:
        CaptureError: for a sparse or nested tensor, and for what is computed and has no element,
            but for what a concatenation leaves out, or has a dtype that torch only stores.
    """
    constants: set[Node] = set()
    for node in module.graph.nodes:
        if node.op == "get_attr" or (
            node.op == "call_function" and constants.issuperset(node.all_input_nodes)
        ):
            constants.add(node)
        where = f"{names[node]} ({MaseMetadata(*origin(node)).place})"
        for value in _tensors(node):
            check_dense(value, f"the result of {where}")
            alone = isinstance(node.meta.get("val"), Tensor)
            if alone and node.op == "call_function" and node not in constants:
                _check_computed(node, value, where)


def _check_computed(node: Node, value: Tensor, where: str) -> None:
    if _is_empty(value) and not all(map(_leaves_out, node.users)):
        sizes = [size if isinstance(size, int) else "batch" for size in value.shape]
        shape = ", ".join(map(str, sizes))
        raise CaptureError(f"{where} leaves no element: its result has the shape [{shape}]")
    instead, dtype = _KEPT.get(value.dtype), str(value.dtype).removeprefix("torch.")
    if value.is_floating_point() and value.itemsize == 1:
        instead = "float32"
    if instead is not None:
        raise CaptureError(
            f"{where} is of the dtype {dtype}, which torch barely computes in: use {instead}, "
            "and give the number format to quantize"
        )


def _tensors(node: Node) -> list[Tensor]:
    values: list[object] = tree_leaves(node.meta.get("val"))
    return [item for item in values if isinstance(item, Tensor)]


def _is_empty(value: Tensor) -> bool:
    return any(isinstance(size, int) and size == 0 for size in value.shape)


def _leaves_out(user: Node) -> bool:
    """True if a node is as without an operand that has no element, or has none itself."""
    return str(user.target) in _JOINS or any(map(_is_empty, _tensors(user)))
