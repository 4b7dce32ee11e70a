"""Where callers have the batch, which is the first dimension of everything inside a graph.

Recurrent layers take time before the batch by default, and their states are `[layers, batch, ...]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_flatten, tree_unflatten

from mase_hw._aten import aten
from mase_hw.graph._rewriter import is_dynamic

_transpose = aten.transpose.int


@dataclass(frozen=True)
class BatchDims:
    """The dimensions that count inferences, as callers have them.

    Attributes:
        inputs: that of each input.
        results: that of each leaf of what is returned.
    """

    inputs: tuple[int, ...] = ()
    results: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        """True if any is not the first."""
        return any((*self.inputs, *self.results))

    def of_input(self, number: int) -> int:
        """Return that of an input."""
        return self.inputs[number] if self.inputs else 0

    def of_result(self, number: int) -> int:
        """Return that of a leaf of what is returned."""
        return self.results[number] if self.results else 0

    def inside(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return a caller's inputs with the batch first."""
        if not self:
            return list(inputs)
        return [item.movedim(dim, 0) for item, dim in zip(inputs, self.inputs, strict=True)]

    def outside(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return inputs with the batch first as a caller has them."""
        if not self:
            return list(inputs)
        return [item.movedim(0, dim) for item, dim in zip(inputs, self.inputs, strict=True)]

    def returned(self, outputs: object) -> Any:
        """Return results, which have the batch first, in the caller's order of dimensions."""
        if not self:
            return outputs
        leaves, structure = tree_flatten(outputs)
        moved = [
            leaf.movedim(0, dim) if dim else leaf
            for leaf, dim in zip(leaves, self.results, strict=True)
        ]
        return tree_unflatten(moved, structure)


FIRST = BatchDims()


def lead_with_batch(module: GraphModule) -> BatchDims:
    """Put the batch of inputs and results first, in place, where it is their second dimension.

    Args:
        module: a captured graph, whose dynamic sizes are its batch.

    Returns:
        Which dimension it was.
    """
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    output = module.graph.output_node()
    results, _ = tree_flatten(output.args[0])
    dims = BatchDims(tuple(map(_is_second, inputs)), tuple(map(_is_second, results)))
    for node, dim in zip(inputs, dims.inputs, strict=True):
        if dim:
            _turn(module, node)
    turned: dict[Node, Node] = {}
    for node, dim in zip(results, dims.results, strict=True):
        if dim and node not in turned:
            with module.graph.inserting_before(output):
                turned[node] = module.graph.call_function(_transpose, (node, 0, 1))
            turned[node].meta = {**node.meta, "val": node.meta["val"].transpose(0, 1)}
    output.args = map_arg(output.args, lambda node: turned.get(node, node))
    return dims


def _is_second(node: object) -> int:
    """Return 1 where a node's second dimension is dynamic, and no other one; else 0."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, Tensor) or value.dim() < 2:
        return 0
    return int(
        [is_dynamic(size) for size in value.shape] == [False, True, *[False] * (value.dim() - 2)]
    )


def _turn(module: GraphModule, node: Node) -> None:
    with module.graph.inserting_after(node):
        back = module.graph.call_function(_transpose, (node, 0, 1))
    back.meta = dict(node.meta)
    node.meta = {**node.meta, "val": node.meta["val"].transpose(0, 1)}
    node.replace_all_uses_with(back, delete_user_cb=lambda user: user is not back)
