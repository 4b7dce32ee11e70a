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
from mase_hw.graph.calls import spec_of
from mase_hw.graph.loops import loops_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import CommonMetadata, MaseMetadata, common, metadata, update
from mase_hw.graph.rebuild import set_tensor
from mase_hw.graph.streams import stream_operands
from mase_hw.ops import Call, Elementwise, TensorSpec, operator_for, operator_for_role, operators
from mase_hw.ops.infrastructure.thresholds import MAX_BOUNDS
from mase_hw.passes._insert import insert_after, unique_name
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical.remove_identity import erase_node

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
    found: list[tuple[list[str], _Steps]] = []
    taken: set[Node] = set()
    for node in mg.nodes if not loops_of(mg) else ():
        if node in taken or not _is_link(node):
            continue
        nodes = _chain(node)
        steps = _longest(mg, nodes)
        if steps is not None:
            chain = nodes[: steps.length]
            taken.update(chain)
            found.append(([item.name for item in chain], steps))
    if not found:
        return mg, {"merged": {}}
    mg = mg.copy()
    merged = {}
    for names, steps in found:
        merged[_replace(mg, [mg.node(name) for name in names], steps)] = names
    mg.recompile()
    return mg, {"merged": merged}


def is_merged(mg: MaseGraph) -> bool:
    """Return whether thresholds stand in a graph for what was computed before."""
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
    """Return whether a node computes element by element from one stream."""
    if node.op != "call_function" or common(node).operator is None:
        return False
    operator = operators()[str(common(node).operator)]
    streams = stream_operands(node)
    if not isinstance(operator, Elementwise) or len(streams) != 1 or len(common(node).results) != 1:
        return False
    result, given = common(node).results["data_out_0"], common(streams[0][1]).results["data_out_0"]
    scalars = FIXED_POINT | SCALARS
    families = [
        None if item.format is None else family_of(type(item.format)) for item in (result, given)
    ]
    return result.shape == given.shape and all(item in scalars for item in families)


def _chain(first: Node) -> list[Node]:
    """Return the nodes from `first` on of which each alone takes the one before."""
    nodes = [first]
    while len(nodes[-1].users) == 1:
        (user,) = nodes[-1].users
        if not _is_link(user):
            break
        nodes.append(user)
    return nodes


def _longest(mg: MaseGraph, nodes: Sequence[Node]) -> _Steps | None:
    """Return the steps of the longest beginning of a chain that is worth them."""
    data = common(stream_operands(nodes[0])[0][1]).results["data_out_0"]
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
    """Return what a chain computes as steps, None where it does not rise or fall throughout."""
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
    """Return the shape of one inference in which dimensions without constants are one element."""
    sizes = [1] * len(data.shape)
    for call in calls:
        for values in call.constants.values():
            for dim, size in enumerate(reversed(values.shape), 1):
                if size > 1 and dim < len(sizes):
                    sizes[-dim] = data.shape[-dim]
    return torch.Size(sizes)


def _replace(mg: MaseGraph, nodes: Sequence[Node], steps: _Steps) -> str:
    """Put thresholds in the place of nodes, and return their name."""
    ((_, producer),) = stream_operands(nodes[0])
    given, last = common(producer).results["data_out_0"], nodes[-1]
    result = common(last).results["data_out_0"]
    data, number = fixed(given), result.quantized
    values = number.decode(torch.tensor([steps.lowest, steps.lowest + steps.size]))
    first = nodes[0]
    bounds = steps.bounds.double() * 2.0**-data.frac_width
    width = data.width + 1 + (not data.signed)
    formats = {
        "bounds": make_format(
            {"name": DEFAULT_FORMAT, "width": width, "frac_width": data.frac_width}
        ),
        "signs": make_format({"name": DEFAULT_FORMAT, "width": 2, "frac_width": 0}),
    }
    read: dict[str, Node] = {}
    for key, tensor in (("bounds", bounds), ("signs", steps.signs)):
        target = unique_name(f"{first.name}_{key}", [item.name for item in mg.nodes])
        set_tensor(mg.model, target, tensor)
        with mg.fx_graph.inserting_before(first):
            read[key] = mg.fx_graph.get_attr(target)
        read[key].meta["mase"] = MaseMetadata(
            metadata(first).module_path,
            metadata(first).source,
            CommonMetadata(None, {}, {"data_out_0": spec_of(tensor).with_format(formats[key])}),
        )
    step = float(values[1] - values[0])
    arguments = (read["bounds"], read["signs"], float(values[0]), step)
    made = insert_after(mg, last, ROLE, given, result, arguments, first.name)
    made.replace_input_with(last, producer)
    constants = {key: common(item).results["data_out_0"] for key, item in read.items()}
    known = replace(common(made), operands={"data_in_0": given, **constants})
    update(made, common=known, source=metadata(first).source)
    for user in list(last.users):
        if user is not made:
            user.replace_input_with(last, made)
    for node in reversed(nodes):
        erase_node(mg, node)
    return made.name
