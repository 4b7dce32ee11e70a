"""Masks of pruned parameters: their zeros stay zero while they are trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.fx import Node

from mase_hw.graph.captured import CapturedGraph
from mase_hw.graph.nodes import metadata


def pruned_parameters(mg: CapturedGraph) -> Iterator[tuple[Node, nn.Parameter]]:
    """Yield the pruned parameters with a node that reads each."""
    for node in mg.nodes:
        if node.op == "get_attr" and metadata(node).pruned:
            value = mg.constant(node)
            if isinstance(value, nn.Parameter):
                yield node, value


def hold_masks(mg: CapturedGraph) -> None:
    """Zero the gradients of pruned elements from now on.

    An optimiser that starts afterwards never moves them: their gradient, its moments and the decay
    of a zero are zero.
    """
    for _, parameter in pruned_parameters(mg):
        holder: Any = parameter
        previous = getattr(holder, "_mase_mask", None)
        if previous is not None:
            previous.remove()
        mask = (parameter.detach() != 0).to(parameter.dtype)
        if parameter.requires_grad:
            holder._mase_mask = holder.register_hook(_masked(mask))


def _masked(mask: Tensor) -> Any:
    return lambda gradient: gradient * mask.to(gradient)
