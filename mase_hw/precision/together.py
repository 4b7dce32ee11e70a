"""Formats and parallelism together: the least hardware for an agreement and a rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch.fx import Node

from mase_hw.emit.flow import lowered
from mase_hw.errors import ConfigError
from mase_hw.formats import DEFAULT_FORMAT
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.hardware.explore import Explorer, Targets
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.passes.hardware.memory import NODE_STYLE
from mase_hw.precision.configuration import uniform
from mase_hw.precision.cost import cost_of, with_lanes
from mase_hw.precision.fitted import Fitted

FIRST_WIDTH, TURNS = 8, 2


def fit_together(
    mg: MaseGraph,
    fixed: Mapping[str, object],
    targets: Targets,
    fit: Callable[[Mapping[str, Any]], Fitted],
) -> Fitted:
    """Return the cheapest formats and parallelism, chosen in turns until neither changes.

    Args:
        mg: a canonical graph with observed ranges.
        fixed: a table of the parallelism that is fixed.
        targets: a rate.
        fit: returns the formats for a parallelism.

    Raises:
        ConfigError: for a target of resources, which the formats have, too.
        ParallelismError: for a rate that no design has.
    """
    if targets.budgets:
        raise ConfigError(
            "max_lut, max_dsp and max_bram of a parallelism do not go with formats that are to be "
            "found; give max_lut and max_bram to fit_formats"
        )
    first = uniform(mg, {"name": DEFAULT_FORMAT, "width": FIRST_WIDTH})
    lanes = _lanes(quantize_transform_pass(mg, first)[0], fixed, targets)
    best: Fitted | None = None
    for _ in range(TURNS):
        found = fit(lanes)
        lanes = _lanes(found.graph, fixed, targets)
        # The same formats in the parallelism that suits them best.
        cost = cost_of(with_lanes(found.graph, lanes))
        if cost.weighed < found.result.cost.weighed:
            found = replace(found, result=replace(found.result, cost=cost), parallelism=lanes)
        if best is not None and found.result.cost.weighed >= best.result.cost.weighed:
            break
        best = found
        if lanes == found.parallelism:
            break
    assert best is not None
    return best


def _lanes(mg: MaseGraph, fixed: Mapping[str, object], targets: Targets) -> Mapping[str, Any]:
    """Return the parallelism of least resources for a rate, of nodes that are no casts.

    Of what memories are made is left to what is cheaper, as where formats are priced.
    """
    table = Explorer.of(lowered(mg), fixed).best(targets).table
    names = {node.name for node in mg.nodes if node.op != "call_function" or is_own(mg, node)}
    return {
        name: {key: value for key, value in entry.items() if key != NODE_STYLE}
        if isinstance(entry, Mapping)
        else entry
        for name, entry in table.items()
        if name == "default" or name in names
    }


def is_own(mg: MaseGraph, node: Node) -> bool:
    """Return whether a node is the model's, not one that formats have put in."""
    return common(node).operator is not None and mg.call(node).operator.role is None
