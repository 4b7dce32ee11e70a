"""Look up what a model computes of the position of a step alone: masks, rotary angles."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._kinds import Argument, Table
from mase_hw.errors import UnsupportedError
from mase_hw.graph import MaseGraph
from mase_hw.graph.nodes import common, location, tensor_arguments
from mase_hw.graph.rebuild import ancestors, evaluate
from mase_hw.ops import Stateful, looked_up, operator_for
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical._rewrite import rewrite_from
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass

# Dtypes of what is looked up.
_REAL = ("float", "bfloat", "bool")


@graph_pass
def look_up_positions_transform_pass(mg: MaseGraph) -> Result:
    """Make tables of what is computed of an input that says a place of a state, and nothing else.

    The input is one number, below the number of places: what it gives is computed for each, once,
    and becomes the row of a table. The number itself is read where it enters.

    Args:
        mg: a graph with common metadata, constants folded.

    Returns:
        The graph, with common metadata, and `{"tables": names of the nodes}`.

    Raises:
        UnsupportedError: for a place that is no input, and for what the model does not compute for
            every place.
    """
    if not mg.keeps_state:
        return mg, {"tables": []}
    mg = mg.copy()
    tables: list[str] = []
    for position, places in _positions(mg).items():
        computed = _Values(mg, position, places)
        _read_positions(mg, computed)
        # Before the first is replaced: others are computed of what it is.
        values = {node: computed.of(node) for node in computed.results()}
        for node, rows in values.items():
            tables.append(node.name)
            _read_table(mg, node, position, rows)
    mg.fx_graph.eliminate_dead_code()
    mg.recompile()
    return add_common_metadata_analysis_pass(mg, {})[0], {"tables": tables}


class _Values:
    """What nodes compute of a position, for every place.

    Attributes:
        position: the input.
        places: number of places.
        nodes: those that depend on it and on constants alone, and on it at all.
    """

    def __init__(self, mg: MaseGraph, position: Node, places: int) -> None:
        self.position = position
        self.places = places
        self._mg = mg
        self.nodes = {position: None}
        constants: set[Node] = set()
        for node in mg.nodes:
            inputs, calls = node.all_input_nodes, node.op == "call_function"
            if node.op == "get_attr" or (calls and not inputs):
                constants.add(node)
            elif calls and all(item in constants or item in self.nodes for item in inputs):
                self.nodes |= {node: None} if _state(node) is None else {}

    def results(self) -> list[Node]:
        """Return the nodes that others read, but for numbers, such as those of places."""
        return [
            node
            for node in self.nodes
            if node is not self.position
            and any(user not in self.nodes for user in node.users)
            and common(node).results["data_out_0"].dtype.startswith(_REAL)
        ]

    def of(self, node: Node) -> Tensor:
        """Return `[places, *shape]`.

        Raises:
            UnsupportedError: where it does not run for every place.
        """
        spec = common(self.position).results["data_out_0"]
        inside = set(ancestors(node))
        order, rows = [item for item in self._mg.nodes if item in inside], list[Tensor]()
        for place in range(self.places):
            values = torch.full(spec.shape, place, dtype=getattr(torch, spec.dtype))
            try:
                rows.append(evaluate(self._mg.model, order, {self.position: values})[node])
            except (RuntimeError, IndexError) as error:
                raise UnsupportedError(
                    f"{node.name} at {location(node)} is not computed for position {place} of "
                    f"{self.places}: {str(error).splitlines()[0]}; give the state as many places "
                    "as the model has positions"
                ) from error
        return torch.stack(rows)


def _positions(mg: MaseGraph) -> dict[Node, int]:
    positions: dict[Node, int] = {}
    for node in mg.nodes:
        for place, number in _places(mg, node):
            inputs = [item for item in ancestors(place) if item.op == "placeholder"]
            if len(inputs) != 1:
                raise UnsupportedError(
                    f"{node.name} at {location(node)}: the number of the place is computed of "
                    "several inputs, or of none; give it as an input of its own"
                )
            positions[inputs[0]] = max(number, positions.get(inputs[0], 0))
    return positions


def _state(node: Node) -> Stateful | None:
    operator = operator_for(node.target) if node.op == "call_function" else None
    return operator if isinstance(operator, Stateful) else None


def _places(mg: MaseGraph, node: Node) -> list[tuple[Node, int]]:
    operator = _state(node)
    if operator is None:
        return []
    arguments = dict(tensor_arguments(node))
    places = [(arguments[name], n) for name, n in operator.places(mg.call(node)).items()]
    return [(item, count) for item, count in places if isinstance(item, Node)]


def _read_positions(mg: MaseGraph, values: _Values) -> None:
    """Let users of the number of a place read the input, where that is computed of it."""
    for node in mg.nodes:
        for place, _ in _places(mg, node):
            if place is values.position or place not in values.nodes:
                continue
            places = torch.arange(values.places)
            if not torch.equal(values.of(place).flatten(1).long(), places[:, None]):
                raise UnsupportedError(
                    f"{node.name} at {location(node)}: the number of the place is computed of "
                    f"{values.position.name}, and another one; give the place itself as an input"
                )
            node.replace_input_with(place, values.position)


def _read_table(mg: MaseGraph, node: Node, position: Node, rows: Tensor) -> None:
    def write(operands: Table) -> list[Argument]:
        return [looked_up(operands["position"], rows)]

    replaced = rewrite_from(mg, node, common(node).results, write, {"position": position})
    assert replaced
