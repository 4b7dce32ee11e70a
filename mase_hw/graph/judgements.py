"""Channels and scales of a graph's results, by which its agreement is judged."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.graph.agreement import Judgement
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import stream_operands
from mase_hw.graph.rebuild import reached
from mase_hw.graph.reference import spec
from mase_hw.ops import Elementwise, Judged, Numeric, Operator, operator_for


def judgements(mg: MaseGraph) -> dict[str, Judgement]:
    """Judgements of a graph's outputs, by name.

    Channels lie along the last dimension, or where the operator says that computes them, as a
    convolution does; movement and element by element they are followed to the output. Results are
    in one scale behind an operator that brings them there, as a softmax, and behind a row that is
    divided by its own sum or norm.
    """
    marks = _Marks(mg)
    return {
        name: marks.of[node]
        for name, node in zip(mg.output_names, mg.outputs, strict=True)
        if node in marks.of
    }


class _Marks:
    """Judgements of all results.

    Attributes:
        of: judgement by node.
    """

    def __init__(self, mg: MaseGraph) -> None:
        self._mg = mg
        self.of: dict[Node, Judgement] = {}
        for node in mg.nodes:
            if node.op == "placeholder":
                self.of[node] = Judgement(self._last(node))
            elif node.op == "call_function":
                axis = self._axis(node)
                self.of[node] = Judgement(axis, self._in_one_scale(node, axis))

    def _last(self, node: Node) -> int | None:
        """Return the last dimension; None where there is none but the batch's."""
        shape = spec(node).shape
        least = 1 if self._mg.batched else 0
        return len(shape) - 1 if len(shape) > least and shape[-1] > 1 else None

    def _axis(self, node: Node) -> int | None:
        shape, operator = spec(node).shape, operator_for(node.target)
        declared = Judged.of(operator).channel_axis
        sources = [item for _, item in stream_operands(node) if item in self.of]
        alike = [item for item in sources if spec(item).shape == shape]
        if declared is not None:
            own = declared % len(shape)
            return own if shape[own] > 1 else None
        if not sources:
            return self._last(node)
        source = (alike or sources)[0]
        axis = self.of[source].axis
        if axis is None or alike:
            return axis
        moves = operator is not None and not operator.casts and Numeric.of(operator).keeps_format
        if moves and len(sources) == 1:
            return self._moved(node, source, axis)
        operand = spec(source).shape
        if len(shape) == len(operand):
            return axis if shape[axis] > 1 else None
        kept = axis < len(shape) < len(operand) and shape[axis] == operand[axis]
        return axis if kept else self._last(node)

    def _moved(self, node: Node, source: Node, axis: int) -> int | None:
        """Return the dimension along which the channels of an operand lie behind a movement."""
        shape = spec(source).shape
        sizes = [-1 if dim == axis else 1 for dim in range(len(shape))]
        labels = torch.arange(float(shape[axis])).reshape(sizes)
        place: dict[Node, Any] = {source: labels.expand(shape)}
        arguments = torch.fx.node.map_arg((node.args, node.kwargs), lambda item: place[item])
        try:
            moved: Tensor = node.target(*arguments[0], **arguments[1])  # type: ignore[operator]
        except (KeyError, TypeError, RuntimeError):
            return self._last(node)
        varies = [
            dim for dim in range(moved.dim()) if bool((moved != moved.narrow(dim, 0, 1)).any())
        ]
        return varies[0] if len(varies) == 1 else (self._last(node) if varies else None)

    def _in_one_scale(self, node: Node, axis: int | None) -> bool:
        operator = operator_for(node.target)
        judged = Judged.of(operator)
        if judged.one_scale:
            return True
        sources = [item for _, item in stream_operands(node) if item in self.of]
        if operator is not None and sources and all(self.of[item].one_scale for item in sources):
            constants = self._mg.call(node).constants.values()
            return _passes(operator) and all(value.numel() == 1 for value in constants)
        if not judged.row_unit or len(sources) != 2 or axis is None:
            return False
        rows, unit = sources
        ways = [(rows, unit), (unit, rows)] if judged.row_unit == "factor" else [(rows, unit)]
        return any(self._is_unit(*way, axis, judged.row_unit) for way in ways)

    def _is_unit(self, rows: Node, unit: Node, axis: int, kind: str) -> bool:
        """True for one number a row that is the sum, or its like, of these rows."""
        above = {item for item in reached(rows, _by_element) if self._size(item, axis) > 1}
        for item in reached(unit, _by_element):
            operator = operator_for(item.target) if item.op == "call_function" else None
            if self._size(item, axis) == 1 and Judged.of(operator).row_unit == kind:
                for _, source in stream_operands(item):
                    if not above.isdisjoint(reached(source, _by_element)):
                        return True
        return False

    def _size(self, node: Node, axis: int) -> int:
        shape = spec(node).shape
        return shape[axis] if axis < len(shape) else 0


def _by_element(node: Node) -> list[Node]:
    operator = operator_for(node.target) if node.op == "call_function" else None
    passes = operator is not None and _passes(operator)
    return [source for _, source in stream_operands(node)] if passes else []


def _passes(operator: Operator) -> bool:
    """True for operators each result of which depends on one element of each operand."""
    return (
        isinstance(operator, Elementwise)
        or operator.role is not None
        or Numeric.of(operator).keeps_format
    )
