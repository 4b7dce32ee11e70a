"""Which outputs of a graph count for a goal, and how much of them is kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch.fx import Node

from mase_hw.errors import ConfigError, DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.passes.formats.expected_agreement import is_real
from mase_hw.precision.evaluation import Result
from mase_hw.precision.goal import Goal
from mase_hw.precision.propagation import Measure, by_confidence
from mase_hw.precision.samples import Samples


def measure_of(mg: MaseGraph, goal: Goal, samples: Samples) -> Measure:
    """Return what the noise of options is measured of.

    Raises:
        DataError: where a goal asks for labels that are not there.
        ConfigError: where it asks for decibels of what is no real number.
    """
    outputs = list(dict.fromkeys(node for node in mg.outputs if node.op == "call_function"))
    real = [node for node in outputs if _is_real(node)]
    if goal.max_drop is not None and samples.labels is None and len(real) == len(outputs):
        raise DataError(
            "max_drop counts points of accuracy, which needs labels; give data with the class of "
            "every example, or min_sqnr, which needs none"
        )
    if goal.min_sqnr is not None and not real:
        raise ConfigError(
            f"the outputs of {mg.name} are indices or truths, of which there are no decibels; "
            "give max_drop, the percentage of elements that may differ from the float model's"
        )
    if goal.max_drop is not None and len(real) == 1 == len(outputs):
        return Measure(real, by_confidence)
    return Measure(real if goal.max_drop is None and real else _behind(outputs))


def _behind(outputs: Sequence[Node]) -> list[Node]:
    """Return the nearest real results from which outputs are computed."""
    found: dict[Node, None] = {}
    waiting = list(outputs)
    while waiting:
        node = waiting.pop()
        if node.op == "call_function":
            if _is_real(node):
                found[node] = None
            else:
                waiting += node.all_input_nodes
    return list(found)


def _is_real(node: Node) -> bool:
    known = common(node).results.get("data_out_0")
    return known is not None and is_real(known.dtype)


def ratio_of(mg: MaseGraph, node: Node, result: Result) -> float:
    """Return the signal over error of an output in a result."""
    ratios = [
        item.sqnr_db
        for name, output in zip(mg.output_names, mg.outputs, strict=True)
        if output is node and (item := result.outputs.get(name)) and item.sqnr_db is not None
    ]
    return min(ratios, default=math.inf)
