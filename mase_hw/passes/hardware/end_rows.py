"""Let rows of scores end at the diagonal where what follows is left out, as in causal attention."""

from __future__ import annotations

from dataclasses import replace

from torch.fx import Node

from mase_hw.arithmetic.fixed_point import is_fixed
from mase_hw.geometry.runs import stream_axes
from mase_hw.graph.loops import twins_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, stream_operands, update
from mase_hw.ops import Call, Growing, Masked, operator_for
from mase_hw.passes._pass import Result, graph_pass

# What keeps zeros zero.
ROLE = "cast"
RESULT = "data_out_0"

Slot = tuple[Node, str]


@graph_pass
def end_rows_analysis_pass(mg: MaseGraph) -> Result:
    """Mark the operands and results whose rows grow (`TensorSpec.grows`).

    Of what an operator leaves out above the diagonal (`Masked.is_triangular`) nothing is computed
    and nothing streams, from the products that make its operand to the sums that take its result,
    where all that lies between can do with it (`Growing.growing`), nobody else takes it, and rows
    stream one at a time. Everything else stays whole. Results are the same, bit for bit.

    Args:
        mg: a graph with orders. Marks that it has are made anew, as lanes and what is inserted for
            them change what can be.

    Returns:
        The graph, and `{"growing": names of the nodes whose result ends at the diagonal}`.
    """
    if not any(_is_triangular(mg, node) for node in mg.nodes):
        return mg, {"growing": []}
    mg = mg.copy()
    _mark(mg, set())
    found = (_chain(mg, node) for node in mg.nodes if _is_triangular(mg, node))
    chains = [chain for chain in found if chain is not None]
    marked = _alike(mg, chains)
    _mark(mg, marked)
    named = {node.name for node, name in marked if name == RESULT}
    return mg, {"growing": [node.name for node in mg.nodes if node.name in named]}


def _mark(mg: MaseGraph, slots: set[Slot]) -> None:
    """Mark these operands and results, and no others."""
    for node in mg.nodes:
        if node.op == "call_function":
            known = common(node)
            operands, results = (
                {name: replace(spec, grows=(node, name) in slots) for name, spec in specs.items()}
                for specs in (known.operands, known.results)
            )
            update(node, common=replace(known, operands=operands, results=results))


def _is_triangular(mg: MaseGraph, node: Node) -> bool:
    operator = operator_for(node.target) if node.op == "call_function" else None
    if not isinstance(operator, Masked) or operator.masked_argument is None:
        return False
    return operator.is_triangular(mg.call(node))


def _chain(mg: MaseGraph, node: Node) -> set[Slot] | None:
    """Return all that may end with the rows of a triangular node; None where something may not."""
    call = mg.call(node)
    whole = _with(call, RESULT)
    if whole is None or RESULT not in whole or len(whole) < 2:
        return None
    slots: set[Slot] = {(node, name) for name in whole}
    before = all(_before(mg, node, name, slots) for name in whole - {RESULT})
    ends = before and _behind(mg, node, slots)
    return slots if ends and all(_may_end(*slot) for slot in slots) else None


def _with(call: Call, name: str) -> frozenset[str] | None:
    """Tensors that end together with an operand or a result, alone where that is possible."""
    ways = [way for way in Growing.of(call.operator).growing(call) if name in way]
    return min(ways, key=len, default=None)


def _before(mg: MaseGraph, node: Node, name: str, slots: set[Slot]) -> bool:
    """Add what an operand comes from; return whether all of it may end."""
    producer = dict(stream_operands(node))[name]
    if producer.op != "call_function" or not _is_alone(producer):
        return False
    way = _with(mg.call(producer), RESULT)
    if way is None:
        return False
    slots |= {(producer, item) for item in way}
    return all(_before(mg, producer, item, slots) for item in way - {RESULT})


def _behind(mg: MaseGraph, node: Node, slots: set[Slot]) -> bool:
    """Add what takes a result; return whether it may end."""
    if not _is_alone(node):
        return False
    (user,) = node.users
    if user.op != "call_function":
        return False
    (name,) = (name for name, producer in stream_operands(user) if producer is node)
    call = mg.call(user)
    way = _with(call, name)
    if way is None or (RESULT in way and call.operator.role != ROLE):
        return False
    slots |= {(user, item) for item in way}
    return RESULT not in way or _behind(mg, user, slots)


def _is_alone(node: Node) -> bool:
    """True if a result goes to one operand alone."""
    places = [item for user in node.users for item in user.all_input_nodes if item is node]
    uses = sum(
        producer is node
        for user in node.users
        if user.op == "call_function"
        for _, producer in stream_operands(user)
    )
    return len(places) == 1 and uses == 1


def _may_end(node: Node, name: str) -> bool:
    """True if rows of a stream can end: as many as their elements, one after another."""
    spec = {**common(node).operands, **common(node).results}[name]
    rank, axes = len(spec.shape), stream_axes(spec)
    if rank < 3 or axes is None or axes[-1] != rank - 1 or spec.parallelism[0] != 1:
        return False
    return spec.shape[-1] == spec.shape[-2] > spec.parallelism[1] and is_fixed(spec)


def _alike(mg: MaseGraph, chains: list[set[Slot]]) -> set[Slot]:
    """Return the slots of chains that are there in all layers that run on the same hardware."""
    twins, all_ = twins_of(mg), set[Slot]().union(*chains)
    kept = [
        chain
        for chain in chains
        if all((twin, name) in all_ for node, name in chain for twin in twins.get(node, ()))
    ]
    return set[Slot]().union(*kept)
