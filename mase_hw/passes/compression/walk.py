"""Run of a graph on all batches, node by node, in which passes change weights."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.fx import Node

from mase_hw.errors import ConfigError, DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common
from mase_hw.graph.quantized import GraphRun
from mase_hw.ops import Weighted, operator_for
from mase_hw.passes.canonical.software_metadata import batch_inputs

Values = dict[Node, Tensor]


@dataclass(frozen=True)
class Layer:
    """A matrix of weights that a stream is multiplied with: `y = x W^T + b`.

    Attributes:
        node: the layer.
        source: what computes `x`.
        parameter: what reads `W`, float `[results, features]`.
    """

    node: Node
    source: Node
    parameter: Node


def layers(mg: MaseGraph, names: Iterable[str] | None = None) -> dict[Node, Layer]:
    """Return the layers of a graph whose weights are theirs alone.

    Args:
        mg: a graph with common metadata.
        names: of nodes; all layers when not given.

    Raises:
        ConfigError: for a name that is no such layer.
    """
    found: dict[Node, Layer] = {}
    readers: dict[str, int] = {}
    for node in mg.nodes:
        if node.op == "get_attr":
            readers[str(node.target)] = readers.get(str(node.target), 0) + len(node.users)
    for node in mg.nodes:
        operator = operator_for(node.target) if node.op == "call_function" else None
        if operator is None or common(node).operator is None:
            continue
        parameters = [item for item in node.all_input_nodes if item.op == "get_attr"]
        streams = [item for item in node.all_input_nodes if item.op != "get_attr"]
        if len(streams) != 1 or not parameters or mg.constant(parameters[0]).dim() != 2:
            continue
        with torch.device("meta"):
            module = Weighted.of(operator).as_module(mg.call(node))
        if isinstance(module, nn.Linear) and readers[str(parameters[0].target)] == 1:
            found[node] = Layer(node, streams[0], parameters[0])
    mg.release()
    if names is None:
        return found
    known = {node.name: node for node in found}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{mg.name}: {name!r} is no layer with a matrix of weights of its own; "
                f"there are {', '.join(known) or 'not any'}"
            )
    return {known[name]: found[known[name]] for name in names}


def walk(
    mg: MaseGraph, data: Iterable[object], keep: int = 0, only: Collection[str] | None = None
) -> Iterator[tuple[Node, list[Values]]]:
    """Yield every node with the results before it in each batch, then compute it in all of them.

    A weight that is changed meanwhile holds from its node on. Results that nobody reads any more
    are dropped, so that memory holds what lives at one place of the graph.

    Args:
        mg: the graph, in evaluation mode.
        data: batches, as `add_software_metadata_analysis_pass` takes them.
        keep: for how many nodes results stay after their last use.
        only: names of the nodes that round; all when not given.

    Raises:
        DataError: when there is no batch.
    """
    run = GraphRun(mg, only)
    batches = [list(batch_inputs(mg, batch)) for batch in data]
    if not batches:
        raise DataError("there is no batch of data; give at least one")
    nodes = [node for node in mg.nodes if node.op not in ("get_attr", "output")]
    place = {node: number for number, node in enumerate(nodes)}
    ends: dict[int, list[Node]] = {}
    for node in nodes:
        last = max((place.get(user, len(nodes)) for user in node.users), default=place[node])
        ends.setdefault(last + keep, []).append(node)
    values: list[Values] = [{} for _ in batches]
    inputs = [iter(batch) for batch in batches]
    for number, node in enumerate(nodes):
        yield node, values
        with torch.no_grad():
            for results, given in zip(values, inputs, strict=True):
                is_input = node.op == "placeholder"
                results[node] = run.step(node, results, next(given) if is_input else None)
        for dead in ends.get(number, ()):
            for results in values:
                results.pop(dead, None)
