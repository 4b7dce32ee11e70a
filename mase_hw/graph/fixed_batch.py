"""Where a batch of examples becomes part of one inference.

A graph whose rows do not compute by themselves is captured at the shape of its examples: all rows
are one inference, and hardware computes all of them. That may be meant, as for a sequence without
a batch, or be a slip, such as a `squeeze` that takes a batch of one with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx import Node

from mase_hw._aten import aten
from mase_hw.graph.captured import batch_size
from mase_hw.graph.exported import tensors_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, stream_operands

_SELECT, _SQUEEZE = aten.select.int, aten.squeeze.default


def fixed_batch(mg: MaseGraph) -> Iterator[tuple[Node, str]]:
    """Yield the nodes that make the rows of a batch one inference, with what they do.

    Args:
        mg: a graph with common metadata.
    """
    size = None if mg.batched else batch_size(mg.example_inputs)
    if size is None:
        yield from _numbers(mg)
    if size is None or size == 1:
        return
    whole = f"all {size} rows of the example inputs are one inference, which hardware computes"
    rows = {node for node in mg.inputs if _is_first(node, size)}
    notes: list[tuple[Node, str]] = []
    for node in mg.nodes:
        if node.op != "call_function":
            continue
        if rows.isdisjoint(producer for _, producer in stream_operands(node)):
            continue
        rows.add(node)
        if node.target is _SQUEEZE:
            text = (
                f"without a dimension it takes a batch of one away, so that {whole} together: "
                "name the dimension, such as squeeze(1)"
            )
            notes.append((node, text))
        elif not _is_first(node, size):
            text = (
                f"it moves, cuts or merges dimension 0, of size {size}, so that {whole} together: "
                "if they are a batch, keep them first and by themselves"
            )
            notes.append((node, text))
        if not _is_first(node, size):
            break
    # What fixes the rows, before what then merges them.
    for node in mg.nodes:
        if node in rows and _takes_rows(node, size):
            yield (
                node,
                f"it takes a constant of {size} rows, one for each row of dimension 0, so that "
                f"{whole} together: if they are a batch, give it one row, or take rows by an input",
            )
            return
        if node in rows and any(_is_literal(value, size) for value in node.args):
            yield (
                node,
                f"its code says {size} for dimension 0, as len(x) does, so that {whole} together: "
                "if they are a batch, say x.shape[0]",
            )
            return
    yield from notes


def _takes_rows(node: Node, size: int) -> bool:
    tensors = common(node)
    streams = {name for name, _ in stream_operands(node)}
    rank = len(tensors.results["data_out_0"].shape)
    return any(
        name not in streams and len(spec.shape) == rank and spec.shape[:1] == (size,)
        for name, spec in tensors.operands.items()
    )


def _is_literal(value: object, size: int) -> bool:
    """True if an argument is a shape whose first dimension is that of the batch."""
    return isinstance(value, list | tuple) and len(value) > 1 and value[0] == size


def has_batch_behind(mg: MaseGraph, node: Node) -> bool:
    """True if an input is cut along dimension 0, and its dimension 1 is others' batch."""
    if not all(user.target is _SELECT and not user.args[1] for user in node.users):
        return False
    given = dict(zip(mg.inputs, mg.example_inputs, strict=True))
    own = given.pop(node)
    return own.dim() > 2 and any(own.shape[1] in value.shape[:2] for value in given.values())


def _numbers(mg: MaseGraph) -> Iterator[tuple[Node, str]]:
    """Yield an input whose only dimension may be meant as a batch, as its numbers are apart."""
    for place, (node, value) in enumerate(zip(mg.inputs, mg.example_inputs, strict=True)):
        if value.dim() == 1 and len(value) > 1 and _are_apart(mg, place):
            yield (
                node,
                f"all {len(value)} numbers of the example are one inference, as it has one "
                f"dimension: if they are a batch, take [{len(value)}, 1] and squeeze(1) it",
            )
            return


def _are_apart(mg: MaseGraph, place: int) -> bool:
    """True if each number of an input decides one row of every result."""
    inputs = list(mg.example_inputs)
    rows = len(inputs[place])
    first, last = inputs[place][:1], inputs[place][-1:]
    if torch.equal(first, last):
        return True
    with torch.no_grad():
        given = tensors_of(mg(*inputs))
        # The first number again in the place of the last.
        inputs[place] = torch.cat([inputs[place][:-1], first])
        changed = tensors_of(mg(*inputs))
    return all(
        one.shape[:1] == (rows,) and torch.equal(one[:-1], other[:-1])
        for one, other in zip(given, changed, strict=True)
    )


def _is_first(node: Node, size: int) -> bool:
    """True if the first dimension of a result may be that of the batch."""
    result = common(node).results.get("data_out_0")
    return result is not None and result.shape[:1] == (size,)
