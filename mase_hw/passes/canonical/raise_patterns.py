"""Raise compositions of ATen operators to the one operator that they mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from mase_hw._kinds import Argument, Table
from mase_hw.errors import UnsupportedError
from mase_hw.graph import MaseGraph, metadata, update
from mase_hw.graph.encoding import decode_target
from mase_hw.graph.nodes import aten_arguments, unique_name
from mase_hw.graph.rebuild import ancestors
from mase_hw.graph.source import location_of_error
from mase_hw.ops import ANY_NUMBER, Commutative, Operator, Recognized, operator_for, operators
from mase_hw.passes._pass import Result, graph_pass

PROBE_SHAPE = (2, 3)
# Constants that are equal in float32 are the same number.
NUMBER_TOLERANCE = 2.0**-23


@dataclass(frozen=True)
class _Composition:
    """What means one operator.

    Attributes:
        root: the node of a captured graph that computes the result.
        size: how many nodes it takes.
    """

    operator: Operator
    arguments: Table
    root: Node
    size: int


@dataclass(frozen=True)
class _Match:
    """Nodes that compute a composition, in any order, and the operand that they take.

    Attributes:
        number: what stands for any number, None where nothing does.
    """

    operand: Node | None
    nodes: tuple[Node, ...]
    number: float | None = None


@graph_pass
def raise_patterns_transform_pass(mg: MaseGraph) -> Result:
    """Replace every occurrence of one of an operator's `patterns` by the operator.

    Larger compositions come first. A value inside that something else reads, too, keeps the
    composition as it is.

    Args:
        mg: the graph.

    Returns:
        The graph, and `{"raised": names of the nodes that were put in}`.
    """
    mg = mg.copy()
    raised: list[str] = []
    # What was raised may be part of another composition, but not for ever.
    for _ in _compositions():
        names = [name for item in _compositions() for name in _raise(mg, item)]
        raised += names
        if not names:
            break
    mg.recompile()
    return mg, {"raised": raised}


def _raise(mg: MaseGraph, composition: _Composition) -> list[str]:
    """Put in the operator wherever the composition occurs; return the names of the nodes."""
    raised = []
    gone: set[Node] = set()
    for node in reversed(list(mg.nodes)):
        if node.target is not composition.root.target or node in gone:
            continue
        for match in _matches(composition.root, node, _Match(None, ())):
            inner = set(match.nodes) - {node}
            if match.operand is not None and all(inner | {node} >= {*item.users} for item in inner):
                gone |= set(match.nodes)
                raised.append(_replace(mg, composition, match, node).name)
                break
    return raised


@cache
def _compositions() -> tuple[_Composition, ...]:
    chosen = list(operators().values())
    try:
        captured = _captured(chosen)
    except Exception:
        # One by one, for the name of the operator at fault.
        captured = [item for operator in chosen for item in _captured_alone(operator)]
    return tuple(sorted(captured, key=lambda item: -item.size))


def _captured(chosen: Sequence[Operator]) -> list[_Composition]:
    owners: list[tuple[Operator, Table]] = []

    def compute(x: Tensor) -> list[Tensor]:
        results = []
        for operator in chosen:
            for spelling in operator.patterns(x) if isinstance(operator, Recognized) else ():
                result, arguments = spelling if isinstance(spelling, tuple) else (spelling, {})
                results.append(result)
                owners.append((operator, arguments))
        return results

    graph = make_fx(compute, pre_dispatch=True)(torch.ones(PROBE_SHAPE)).graph
    roots: Argument = next(node for node in graph.nodes if node.op == "output").args[0]
    if any(root.op != "call_function" for root in roots):
        raise UnsupportedError("one of them computes nothing")
    return [
        _Composition(operator, arguments, root, len(_calls(root)))
        for (operator, arguments), root in zip(owners, roots, strict=True)
        # The operator alone would be raised to itself.
        if str(root.target) != operator.targets[0] or len(_calls(root)) > 1
    ]


def _captured_alone(operator: Operator) -> list[_Composition]:
    try:
        return _captured([operator])
    except Exception as error:
        raise UnsupportedError(
            f"the patterns of operator {operator.name} cannot be captured: {error} "
            f"(at {location_of_error(error)}); allowed are compositions of torch operators on one "
            "tensor"
        ) from error


def _calls(root: Node) -> set[Node]:
    return {node for node in ancestors(root) if node.op == "call_function"}


def _matches(pattern: Argument, value: Argument, match: _Match) -> Iterator[_Match]:
    """Yield every way in which `value` computes `pattern`, beyond a match of others."""
    if isinstance(pattern, Node):
        if not isinstance(value, Node):
            return
        if pattern.op == "placeholder":
            if match.operand in (None, value):
                yield replace(match, operand=value)
        elif value.op == "call_function" and value.target is pattern.target:
            inside = replace(match, nodes=(*match.nodes, value))
            expected, actual = aten_arguments(pattern), aten_arguments(value)
            orders = [list(actual.values())]
            if isinstance(operator_for(value.target), Commutative) and actual.get("alpha", 1) == 1:
                first, second, *rest = orders[0]
                orders.append([second, first, *rest])
            for order in orders:
                yield from _matches_all(list(expected.values()), order, inside)
    elif isinstance(pattern, list | tuple):
        if isinstance(value, list | tuple) and len(pattern) == len(value):
            yield from _matches_all(pattern, value, match)
    elif pattern == ANY_NUMBER and type(value) in (int, float):
        if match.number in (None, value):
            yield replace(match, number=value)
    elif _equal(pattern, value):
        yield match


def _matches_all(
    patterns: Sequence[object], values: Sequence[object], match: _Match
) -> Iterator[_Match]:
    if not patterns:
        yield match
        return
    for first in _matches(patterns[0], values[0], match):
        yield from _matches_all(patterns[1:], values[1:], first)


def _equal(pattern: Argument, value: Argument) -> bool:
    if {type(pattern), type(value)} <= {int, float}:
        return math.isclose(pattern, value, rel_tol=NUMBER_TOLERANCE)
    return type(pattern) is type(value) and bool(pattern == value)


def _replace(mg: MaseGraph, composition: _Composition, match: _Match, result: Node) -> Node:
    operator, origin = composition.operator, metadata(result)
    taken = [node.name for node in mg.nodes if node not in match.nodes]
    name = unique_name(_stem(mg, operator, origin.module_path, match.nodes), taken)
    assert match.operand is not None
    with mg.fx_graph.inserting_before(result):
        node = mg.fx_graph.create_node(
            "call_function",
            decode_target("call_function", operator.targets[0]),
            (match.operand,),
            {
                name: match.number if value == ANY_NUMBER else value
                for name, value in composition.arguments.items()
            },
        )
    node.meta = dict(result.meta)
    update(node, module_path=origin.module_path, source=origin.source, common=None)
    result.replace_all_uses_with(node)
    for inner in reversed(list(mg.fx_graph.nodes)):
        if inner in match.nodes and not inner.users:
            mg.fx_graph.erase_node(inner)
    node.name = name
    return node


def _stem(mg: MaseGraph, operator: Operator, path: str, matched: Sequence[Node]) -> str:
    module = path.replace(".", "_")
    alone = {node for node in mg.nodes if metadata(node).module_path == path} <= set(matched)
    if alone and module.isidentifier():
        return module
    return f"{module}_{operator.name}" if module.isidentifier() else operator.name
