"""What the tensors of a captured graph may be: dense, of some elements, in real numbers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from mase_hw.errors import CaptureError
from mase_hw.graph._dense import check_dense
from mase_hw.graph.metadata import MaseMetadata
from mase_hw.graph.origin import origin

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
