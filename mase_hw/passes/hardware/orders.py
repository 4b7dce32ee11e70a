"""Choose the order of elements of every stream, and re-order where two ends of an edge disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch.fx import Node

from mase_hw.errors import EmissionError
from mase_hw.graph.loops import is_boundary, loops_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import (
    common,
    consumers,
    insert_after,
    refresh_output,
    stream_operands,
    update,
)
from mase_hw.ops import Call, Order, Ordered, TensorSpec, operator_for_role
from mase_hw.passes._pass import Result, graph_pass

ROLE = "retile"


@graph_pass
def assign_orders_transform_pass(mg: MaseGraph) -> Result:
    """Set the order of every stream, producers first, as `Ordered.orders` states it.

    A graph input takes the order that the first consumer asks for which insists on one, seen
    through operators that take any. Where an operand must have another order than its producer
    gives, a node is inserted that re-orders; consumers that need the same order share it. Layers
    that run on the same hardware meet in torch's own order where they offer different ones.

    Args:
        mg: a graph with common metadata.

    Returns:
        The graph, and `{"reorders": names of the inserted nodes}`.
    """
    found, info = _assigned(mg, plain=False)
    try:
        loops_of(found)
    except EmissionError:
        return _assigned(mg, plain=True)
    return found, info


def _assigned(mg: MaseGraph, *, plain: bool) -> Result:
    """Set the orders; in torch's own one between layers on the same hardware, where `plain`."""
    mg = mg.copy()
    inserted: list[Node] = []
    for node in list(mg.nodes):
        if node.op == "placeholder":
            _set_result(node, {"data_out_0": _asked(mg, node)})
        elif node.op == "call_function":
            call = _with_orders(mg.call(node), _offered(node))
            orders = Ordered.of(call.operator).orders(call)
            if plain and is_boundary(node):
                orders = dict.fromkeys(orders)
            for name, producer in stream_operands(node):
                inserted += _connect(mg, node, name, producer, orders[name])
            _set_result(node, orders)
        elif node.op == "output":
            inserted += _restore(mg, node)
    refresh_output(mg.model)
    mg.recompile()
    return mg, {"reorders": [node.name for node in inserted]}


def _offered(node: Node) -> dict[str, Order | None]:
    return {
        name: common(producer).results["data_out_0"].order
        for name, producer in stream_operands(node)
    }


def _with_orders(call: Call, orders: Mapping[str, Order | None]) -> Call:
    operands = {
        name: spec.with_order(orders[name]) if name in orders else spec
        for name, spec in call.operands.items()
    }
    return replace(call, operands=operands)


def _set_result(node: Node, orders: Mapping[str, Order | None]) -> None:
    known = common(node)
    results = {
        name: spec.with_order(orders[name]) if name in orders else spec
        for name, spec in known.results.items()
    }
    update(node, common=replace(known, results=results))


def _asked(mg: MaseGraph, node: Node) -> Order | None:
    """Return the order that a consumer insists on, through those that take any."""
    probe = Order.channels_last(common(node).results["data_out_0"].shape)
    for user, name in consumers(node):
        call = mg.call(user)
        plain = _with_orders(call, dict.fromkeys(call.streams))
        required = Ordered.of(call.operator).orders(plain)
        if required[name] is not None:
            return required[name]
        probed = Ordered.of(call.operator).orders(_with_orders(plain, {name: probe}))
        passed = Order.channels_last(call.result.shape)
        kept = probed[name] == probe and probed.get("data_out_0") == passed
        if probe is not None and passed is not None and kept and _asked(mg, user) == passed:
            return probe
    return None


def _connect(
    mg: MaseGraph, node: Node, name: str, producer: Node, order: Order | None
) -> list[Node]:
    """Give an operand its order; return the node that re-orders, if one had to be made."""
    given = common(producer).results["data_out_0"]
    wanted = given.with_order(order)
    known = common(node)
    operand = known.operands[name]
    update(
        node,
        common=replace(known, operands={**known.operands, name: operand.with_order(order)}),
    )
    if _equal(given, wanted):
        return []
    reorder = operator_for_role(ROLE).name
    for user, _ in consumers(producer):
        made = common(user)
        if made.operator == reorder and made.results["data_out_0"] == wanted and user is not node:
            node.replace_input_with(producer, user)
            return []
    inserted = insert_after(producer, ROLE, given, wanted)
    node.replace_input_with(producer, inserted)
    return [inserted]


def _restore(mg: MaseGraph, output: Node) -> list[Node]:
    """Give what leaves the graph torch's own order; images stay channels last."""
    inserted = []
    for producer in output.all_input_nodes:
        given = common(producer).results["data_out_0"]
        wanted = given.with_order(None)
        if given.order == Order.channels_last(given.shape) or _equal(given, wanted):
            continue
        inserted.append(insert_after(producer, ROLE, given, wanted))
        output.replace_input_with(producer, inserted[-1])
    return inserted


def _equal(given: TensorSpec, wanted: TensorSpec) -> bool:
    """Return true when both orders cut the same elements into the same shape."""
    if given.order == wanted.order:
        return True
    elements = torch.arange(given.elements)
    return given.stream_shape == wanted.stream_shape and torch.equal(
        given.to_beats(elements), wanted.to_beats(elements)
    )
