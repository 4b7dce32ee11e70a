"""Formats and parallelism together: the least hardware for an agreement and a rate."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from mase_hw.emit.flow import lowered
from mase_hw.errors import ConfigError
from mase_hw.formats import DEFAULT_FORMAT
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.hardware.explore import Explorer, Targets
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.passes.hardware.memory import NODE_STYLE
from mase_hw.precision.configuration import uniform
from mase_hw.precision.cost import Lanes, cost_of, with_lanes
from mase_hw.precision.fitted import Fitted
from mase_hw.precision.fitting import Fitting

FIRST_WIDTH, TURNS = 8, 2


def fit_together(
    mg: MaseGraph,
    fixed: Mapping[str, object],
    targets: Targets,
    fit: Callable[[Lanes], tuple[Fitting, Fitted]],
) -> Fitted:
    """Return the cheapest formats and parallelism for a rate.

    They are chosen in turns until neither changes, then in one problem around that choice.

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
            "chosen; give max_lut and max_bram to fit_formats"
        )
    first = quantize_transform_pass(mg, uniform(mg, {"name": DEFAULT_FORMAT, "width": FIRST_WIDTH}))
    explorer = Explorer.of(lowered(first[0]), fixed)
    own = _own(first[0])
    lanes = _lanes(explorer, targets, own)
    best: tuple[Fitting, Fitted] | None = None
    for _ in range(TURNS):
        fitting, fitted = fit(lanes)
        lanes = _lanes(Explorer.of(lowered(fitted.graph), fixed), targets, own)
        # The same formats in the parallelism that suits them best.
        cost = cost_of(with_lanes(fitted.graph, lanes))
        if cost.weighed < fitted.result.cost.weighed:
            fitted = replace(fitted, result=replace(fitted.result, cost=cost), parallelism=lanes)
        if best is not None and fitted.result.cost.weighed >= best[1].result.cost.weighed:
            break
        best = fitting, fitted
        if lanes == fitted.parallelism:
            break
    assert best is not None
    fitting, fitted = best
    if targets.cycles is None:
        return fitted
    return fitting.together(fitted, explorer, targets.cycles, own) or fitted


def _lanes(explorer: Explorer, targets: Targets, own: Collection[str]) -> Mapping[str, object]:
    """Return the parallelism of least resources for a rate, of nodes that are no casts.

    The style of memories is left to the cheaper one, as where formats are priced.
    """
    return {
        name: {key: value for key, value in entry.items() if key != NODE_STYLE}
        if isinstance(entry, Mapping)
        else entry
        for name, entry in explorer.best(targets).table.items()
        if name == "default" or name in own
    }


def _own(mg: MaseGraph) -> set[str]:
    return {
        node.name
        for node in mg.nodes
        if node.op != "call_function"
        or (common(node).operator is not None and mg.call(node).operator.role is None)
    }
