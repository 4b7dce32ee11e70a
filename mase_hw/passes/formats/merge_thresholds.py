"""Merge what stands between a sum and a rounding to few bits into thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.arithmetic.fixed_point import fixed, is_fixed
from mase_hw.formats import DEFAULT_FORMAT, FIXED_POINT, SCALARS, family_of, make_format
from mase_hw.graph.loops import loops_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import (
    common,
    constant_metadata,
    erase_node,
    free_name,
    insert_after,
    metadata,
    operator_at,
    read_constant,
    spec_of,
    stream_operands,
    update,
)
from mase_hw.ops import Call, Elementwise, TensorSpec, operator_for, operator_for_role
from mase_hw.ops.infrastructure.thresholds import MAX_BOUNDS
from mase_hw.passes._pass import Result, graph_pass

ROLE = "thresholds"
# Operands with more codes are not tried one by one.
MAX_WIDTH = 16
MAX_RESULT_BITS = 4
# Results of one evaluation of a chain.
CHUNK_ELEMENTS = 1 << 20


@graph_pass
def merge_thresholds_transform_pass(mg: MaseGraph) -> Result:
    """Put thresholds in the place of chains of element-wise nodes that end in few codes.

    A chain begins behind a tensor in fixed point of at most 16 bits, as the sums of a layer are,
    and ends in at most 16 codes. The integer reference of its nodes gives the result of every
    code there is, in every channel; where that rises or falls throughout a channel, the bounds
    between results say the same, bit for bit. It is done where it saves something: products, or
    at least one of several nodes before a single bit. A graph whose layers run on the hardware of
    one stays: there the constants of a node are several.

    Args:
        mg: a quantised graph.

    Returns:
        The graph, and `{"merged": {name of the thresholds: names of the nodes that they replace}}`.
    """
    chains: list[tuple[list[str], _Steps]] = []
    taken: set[Node] = set()
    for node in mg.nodes if not loops_of(mg) else ():
        nodes = _chain(node) if node not in taken and _is_link(node) else []
        steps = _longest(mg, nodes) if nodes else None
        if steps is not None:
            taken.update(nodes[: steps.length])
            chains.append(([item.name for item in nodes[: steps.length]], steps))
    if not chains:
        return mg, {"merged": {}}
    mg = mg.copy()
    merged = {
        _replace(mg, [mg.node(name) for name in names], steps): names for names, steps in chains
    }
    mg.recompile()
    return mg, {"merged": merged}


def is_merged(mg: MaseGraph) -> bool:
    """True where thresholds stand in a graph for what was computed before."""
    target = operator_for_role(ROLE)
    return any(operator_for(node.target) is target for node in mg.nodes)


@dataclass(frozen=True)
class _Steps:
    """A function of codes that rises or falls.

    Attributes:
        length: nodes that it replaces.
        bounds: `[..., count]`, the codes of the operand that are the last ones below a step.
        signs: `[...]`, 1 or -1.
        lowest: code of the lowest result.
        size: codes from a result to the next.
    """

    length: int
    bounds: Tensor
    signs: Tensor
    lowest: int
    size: int


def _is_link(node: Node) -> bool:
    """True for a node that computes element by element from one stream of scalars."""
    if not isinstance(operator_at(node), Elementwise) or len(common(node).results) != 1:
        return False
    specs = [common(item).results["data_out_0"] for item in (node, *_taken(node))]
    families = {None if item.format is None else family_of(type(item.format)) for item in specs}
    alike = len(specs) == 2 and specs[0].shape == specs[1].shape
    return alike and families <= FIXED_POINT | SCALARS


def _taken(node: Node) -> list[Node]:
    return [producer for _, producer in stream_operands(node)]


def _chain(first: Node) -> list[Node]:
    nodes = [first]
    while len(nodes[-1].users) == 1 and _is_link(user := next(iter(nodes[-1].users))):
        nodes.append(user)
    return nodes


def _longest(mg: MaseGraph, nodes: Sequence[Node]) -> _Steps | None:
    """Steps of the longest beginning of a chain that is worth them."""
    data = common(_taken(nodes[0])[0]).results["data_out_0"]
    if not is_fixed(data) or fixed(data).width > MAX_WIDTH:
        return None
    # Truths and indices may be read as such.
    if not getattr(torch, data.dtype).is_floating_point:
        return None
    calls = [mg.call(node) for node in nodes]
    if any(call.operator.problems(call) for call in calls):
        return None
    for length in range(len(nodes), 0, -1):
        result = calls[length - 1].result
        if result.quantized.bits_per_element > MAX_RESULT_BITS or result.dtype != data.dtype:
            continue
        steps = _steps(calls[:length], data)
        saves = any(call.operator.hardware(call).multipliers for call in calls[:length])
        if steps is not None and (saves or (length > 1 and steps.bounds.shape[-1] == 1)):
            return steps
    return None


def _steps(calls: Sequence[Call], data: TensorSpec) -> _Steps | None:
    """What a chain computes as steps; None where it does not rise or fall throughout."""
    number = fixed(data)
    low, high = number.minimum_code, number.maximum_code
    codes = torch.arange(low, high + 1)
    # What does not depend on a place is computed for one place alone.
    shape = _varying(calls, data)
    size = max(1, CHUNK_ELEMENTS // max(1, shape.numel()))
    references = [call.operator.reference(call) for call in calls]
    parts = []
    for part in torch.split(codes, size):
        values = part.reshape(-1, *[1] * (len(data.shape) - 1)).expand(-1, *shape[1:])
        for reference in references:
            values = reference(values)
        if values.shape != (len(part), *shape[1:]):
            return None
        parts.append(values)
    results = torch.cat(parts)
    changes = results.diff(dim=0)
    rising, falling = (changes >= 0).all(dim=0), (changes <= 0).all(dim=0)
    levels = torch.unique(results)
    size = math.gcd(*(levels - levels[0]).tolist())
    count = int(levels[-1] - levels[0]) // max(size, 1)
    # Hardware shifts the count.
    if not bool((rising | falling).all()) or not 0 < count <= MAX_BOUNDS or size & (size - 1):
        return None
    bounds = [
        low - 1 + torch.where(rising, results < border, results >= border).sum(dim=0)
        for border in range(int(levels[0]) + size, int(levels[-1]) + 1, size)
    ]
    signs = torch.where(rising, 1.0, -1.0)
    return _Steps(len(calls), torch.stack(bounds, -1)[None], signs[None], int(levels[0]), size)


def _varying(calls: Sequence[Call], data: TensorSpec) -> torch.Size:
    """Shape of one inference in which dimensions without constants are one element."""
    sizes = [1] * len(data.shape)
    for call in calls:
        for values in call.constants.values():
            for dim, size in enumerate(reversed(values.shape), 1):
                if size > 1 and dim < len(sizes):
                    sizes[-dim] = data.shape[-dim]
    return torch.Size(sizes)


def _replace(mg: MaseGraph, nodes: Sequence[Node], steps: _Steps) -> str:
    first, last = nodes[0], nodes[-1]
    (producer,) = _taken(first)
    operand, result = (common(item).results["data_out_0"] for item in (producer, last))
    data = fixed(operand)
    codes = torch.tensor([steps.lowest, steps.lowest + steps.size])
    low, high = result.quantized.decode(codes)
    bounds = steps.bounds.double() * 2.0**-data.frac_width
    width = data.width + 1 + (not data.signed)
    constants = {
        "bounds": (bounds, {"width": width, "frac_width": data.frac_width}),
        "signs": (steps.signs, {"width": 2, "frac_width": 0}),
    }
    read, operands = list[Node](), {"data_in_0": operand}
    for key, (values, fields) in constants.items():
        spec = spec_of(values).with_format(make_format({"name": DEFAULT_FORMAT, **fields}))
        name = free_name(first, f"{first.name}_{key}")
        read.append(read_constant(mg.model, first, name, values, constant_metadata(first, spec)))
        operands[key] = spec
    arguments = (*read, float(low), float(high - low))
    thresholds = insert_after(last, ROLE, operand, result, arguments, first.name)
    thresholds.replace_input_with(last, producer)
    source, tensors = metadata(first).source, replace(common(thresholds), operands=operands)
    update(thresholds, common=tensors, source=source)
    for user in list(last.users):
        user.replace_input_with(last, thresholds)
    for node in reversed(nodes):
        erase_node(node)
    return thresholds.name
