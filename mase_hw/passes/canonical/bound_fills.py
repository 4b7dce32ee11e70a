"""Make fills that only mean "never", such as -1e9 in masked scores, as small as they may be."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._kinds import Argument
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import Fill
from mase_hw.graph.nodes import location, metadata, update
from mase_hw.graph.rebuild import descendants, set_tensor
from mase_hw.graph.shapes import run_with
from mase_hw.passes._pass import Result, graph_pass

# A magnitude from which a constant may mean "never".
LARGE = 100.0
# Magnitudes that may take its place, a quarter of an octave apart.
BOUNDS: tuple[float, ...] = tuple(2.0 ** (step / 4) for step in range(-4, 53))
# Outputs that differ by less, relative to their energy, are equal.
TOLERANCE = 1e-9
# By how much values of other data may lie further apart than those of the examples.
MARGIN = 2.0**0.25

# Types of arguments that hold a real number, as torch writes them in a schema.
_REAL = ("number", "float", "Tensor")

_LOG = logging.getLogger(__name__)


@graph_pass
def bound_fills_transform_pass(mg: MaseGraph) -> Result:
    """Replace fill values by the smallest that the model's outputs cannot tell from them.

    A mask's fill of -1e9, or of minus infinity, would be the range of the tensor that it is put
    into: a format that holds it rounds everything else to zero. In front of a softmax, a maximum
    or a sigmoid a fill that lies somewhat below the other values does the same. Which one does is
    measured: the float model runs on the example inputs with smaller and smaller fills, and a fill
    is replaced only where it occurs in a result and no output changes. Where a constant as large
    stands further down, which may be compared with it, nothing is replaced.

    Args:
        mg: a graph with example inputs.

    Returns:
        The graph, and `{"bounded": by node, the magnitude of its fill}`.
    """
    if not mg.example_inputs or not any(_fills_of(mg, node) for node in mg.nodes):
        return mg, {"bounded": {}}
    mg = mg.copy()
    search = _Search(mg)
    bounded: dict[str, float] = {}
    for fills, bound in search.groups():
        search.put(fills, bound * MARGIN)
        for fill in fills:
            bounded[fill.node.name] = bound * MARGIN
            bounded_fill = Fill(bound * MARGIN, fill.largest)
            update(fill.node, fills=(*metadata(fill.node).fills, bounded_fill))
            where = fill.node.name, location(fill.node)
            _LOG.info("%s (%s): a fill of %g in place of %g", *where, bound * MARGIN, fill.largest)
    mg.recompile()
    return mg, {"bounded": bounded}


@dataclass(frozen=True)
class _Fill:
    """A constant that may mean "never".

    Attributes:
        node: the node that reads it.
        place: its place among the node's arguments.
        value: the number, or the tensor in which some elements are so large.
    """

    node: Node
    place: int
    value: float | Tensor

    @property
    def largest(self) -> float:
        return float(torch.as_tensor(self.value).abs().max())

    def within(self, bound: float) -> float | Tensor:
        if isinstance(self.value, Tensor):
            large = self.value.abs() >= LARGE
            return torch.where(large, self.value.sign() * bound, self.value)
        return bound if self.value > 0 else -bound


def _fills_of(mg: MaseGraph, node: Node) -> list[_Fill]:
    if node.op != "call_function" or all(item.op == "get_attr" for item in node.all_input_nodes):
        return []
    fills = []
    for place, argument in enumerate(node.args):
        value = _real_constant(mg, node, place, argument)
        sizes = torch.tensor(0.0) if value is None else torch.as_tensor(value).abs()
        # They are one number, perhaps of either sign.
        if value is not None and len(torch.unique(sizes[sizes >= LARGE])) == 1:
            fills.append(_Fill(node, place, value))
    return fills


def _real_constant(
    mg: MaseGraph, node: Node, place: int, argument: object
) -> float | Tensor | None:
    if isinstance(argument, Node):
        if argument.op != "get_attr":
            return None
        value = mg.constant(argument)
        trained = isinstance(value, torch.nn.Parameter)
        return value if value.is_floating_point() and not trained else None
    schema = getattr(node.target, "_schema", None)
    kind = "" if schema is None else str(schema.arguments[place].type)
    return float(argument) if kind in _REAL and isinstance(argument, int | float) else None


class _Search:
    """The fills of a graph, and what its outputs are with others in their place."""

    def __init__(self, mg: MaseGraph) -> None:
        self._mg = mg
        self._shown: set[Node] = set()
        self._candidates = [fill for node in mg.nodes for fill in _fills_of(mg, node)]
        self._exact = self._outputs(self._note)
        self.fills = [
            fill
            for fill in self._candidates
            if fill.node in self._shown and not self._is_compared(fill.node)
        ]

    def groups(self) -> Iterator[tuple[Sequence[_Fill], float]]:
        """Yield fills with their bound: all at once, or where some count each by itself."""
        together = self._smallest(self.fills)
        for fills in [self.fills] if together else [[fill] for fill in self.fills]:
            bound = together or self._smallest(fills)
            if bound is not None:
                yield fills, bound

    def _smallest(self, fills: Sequence[_Fill]) -> float | None:
        """The least bound with which no output changes; None where there is none."""
        least = min((fill.largest for fill in fills), default=0.0)
        bounds = [bound for bound in BOUNDS if bound <= least / 4]
        if not bounds or not self._same(fills, bounds[-1]):
            return None
        return bounds[bisect_left(bounds[:-1], True, key=lambda bound: self._same(fills, bound))]

    def put(self, fills: Sequence[_Fill], bound: float | None) -> None:
        for fill in fills:
            value = fill.value if bound is None else fill.within(bound)
            if isinstance(value, Tensor):
                argument = fill.node.args[fill.place]
                assert isinstance(argument, Node)
                set_tensor(self._mg.model, str(argument.target), value)
            else:
                fill.node.update_arg(fill.place, value)

    def _same(self, fills: Sequence[_Fill], bound: float) -> bool:
        self.put(fills, bound)
        try:
            return all(map(_equal, self._exact, self._outputs(lambda node, value: None)))
        finally:
            self.put(fills, None)

    def _outputs(self, visit: Argument) -> list[object]:
        values: dict[Node, object] = {}
        leaves = set(self._mg.outputs)

        def note(node: Node, value: Argument) -> None:
            visit(node, value)
            if node in leaves:
                values[node] = value

        run_with(self._mg, self._mg.example_inputs, note)
        return [values[node] for node in self._mg.outputs if node in values]

    def _note(self, node: Node, value: object) -> None:
        for fill in self._candidates:
            if fill.node is node and isinstance(value, Tensor) and value.is_floating_point():
                size = value.abs()
                if bool((size >= min(fill.largest, torch.finfo(value.dtype).max) / 2).any()):
                    self._shown.add(node)

    def _is_compared(self, node: Node) -> bool:
        fills = {fill.node for fill in self._candidates} & self._shown
        behind = (item for item in descendants(node) if item is not node)
        return any(item not in fills and _fills_of(self._mg, item) for item in behind)


def _equal(exact: Argument, other: Argument) -> bool:
    if not isinstance(exact, Tensor) or not exact.is_floating_point():
        return exact is other or (isinstance(exact, Tensor) and torch.equal(exact, other))
    finite = exact.isfinite()
    if not torch.equal(finite, other.isfinite()):
        return False
    kept = exact[finite].double()
    error = (kept - other[finite].double()).square().sum()
    return bool(error <= TOLERANCE * kept.square().sum())
