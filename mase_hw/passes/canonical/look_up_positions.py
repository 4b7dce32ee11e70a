"""Look up what a model computes of the position of a step alone: masks, rotary angles."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.fx import Interpreter, Node

from mase_hw._kinds import Argument
from mase_hw.errors import UnsupportedError
from mase_hw.graph import MaseGraph
from mase_hw.graph.calls import tensor_arguments
from mase_hw.graph.metadata import common, location
from mase_hw.graph.rebuild import ancestors
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
        known = _Values(mg, position, places)
        _read_positions(mg, known)
        # Before the first is replaced: others are computed of what it is.
        values = {node: known.of(node) for node in known.results()}
        for node, rows in values.items():
            tables.append(node.name)
            _replace(mg, node, position, rows)
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
        self._order: list[Node] = []
        constants: set[Node] = set()
        for node in mg.nodes:
            inputs = node.all_input_nodes
            if node.op == "get_attr" or (node.op == "call_function" and not inputs):
                constants.add(node)
                self._order.append(node)
            elif node.op == "call_function" and all(
                item in constants or item in self.nodes for item in inputs
            ):
                operator = operator_for(node.target)
                if not isinstance(operator, Stateful):
                    self.nodes[node] = None
                    self._order.append(node)

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
        rows = []
        for place in range(self.places):
            given = torch.full(spec.shape, place, dtype=getattr(torch, spec.dtype))
            try:
                rows.append(self._run(node, given))
            except (RuntimeError, IndexError) as error:
                raise UnsupportedError(
                    f"{node.name} at {location(node)} is not computed for position {place} of "
                    f"{self.places}: {str(error).splitlines()[0]}; give the state as many places "
                    "as the model has positions"
                ) from error
        return torch.stack(rows)

    def _run(self, node: Node, given: Tensor) -> Tensor:
        interpreter = Interpreter(self._mg.model)
        values: dict[Node, Argument] = {self.position: given}
        interpreter.env = values
        with torch.no_grad():
            for item in self._order:
                constant = item.op == "get_attr"
                values[item] = self._mg.constant(item) if constant else interpreter.run_node(item)
                if item is node:
                    break
        found: Tensor = values[node]
        return found


def _positions(mg: MaseGraph) -> dict[Node, int]:
    found: dict[Node, int] = {}
    for node in mg.nodes:
        for given, number in _places(mg, node):
            source = _source(given)
            if source is None:
                raise UnsupportedError(
                    f"{node.name} at {location(node)}: the number of the place is computed of "
                    "several inputs, or of none; give it as an input of its own"
                )
            found[source] = max(number, found.get(source, 0))
    return found


def _places(mg: MaseGraph, node: Node) -> list[tuple[Node, int]]:
    operator = operator_for(node.target) if node.op == "call_function" else None
    if not isinstance(operator, Stateful):
        return []
    given = dict(tensor_arguments(node, operator.operand_names))
    found = [(given[name], number) for name, number in operator.places(mg.call(node)).items()]
    return [(item, number) for item, number in found if isinstance(item, Node)]


def _source(node: Node) -> Node | None:
    """Return the one input that a node is computed of; None for none, or several."""
    inputs = [item for item in ancestors(node) if item.op == "placeholder"]
    return inputs[0] if len(inputs) == 1 else None


def _read_positions(mg: MaseGraph, known: _Values) -> None:
    """Let what takes the number of a place read the input, where that is computed of it."""
    for node in mg.nodes:
        for given, _ in _places(mg, node):
            if given is known.position or given not in known.nodes:
                continue
            places = torch.arange(known.places)
            if not torch.equal(known.of(given).flatten(1).long(), places[:, None]):
                raise UnsupportedError(
                    f"{node.name} at {location(node)}: the number of the place is computed of "
                    f"{known.position.name}, and another one; give the place itself as an input"
                )
            node.replace_input_with(given, known.position)


def _replace(mg: MaseGraph, node: Node, position: Node, rows: Tensor) -> None:
    """Read a node's results from a table, whose rows they are."""

    def write(given: Mapping[str, object]) -> list[Argument]:
        return [looked_up(given["position"], rows)]

    replaced = rewrite_from(mg, node, common(node).results, write, {"position": position})
    assert replaced
