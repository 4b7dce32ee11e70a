"""Which outputs of a graph count for a goal, and how much of them is kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor
from torch.fx import Node

from mase_hw.errors import ConfigError, DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.precision.evaluation import Result
from mase_hw.precision.goal import Goal
from mase_hw.precision.operands import is_real_result
from mase_hw.precision.propagation import Measure, by_confidence


def check_goal(mg: MaseGraph, goal: Goal, labels: Tensor | None) -> None:
    """Refuse a goal that outputs or samples have no figure of.

    Raises:
        DataError: where it asks for labels that are not there.
        ConfigError: where it asks for decibels of what is no real number.
    """
    outputs, real = _computed(mg)
    if goal.max_drop is not None and labels is None and len(real) == len(outputs):
        raise DataError(
            "max_drop counts points of accuracy, which needs labels; give data with the class of "
            "every example, or min_sqnr, which needs none"
        )
    if goal.min_sqnr is not None and not real:
        raise ConfigError(
            f"the outputs of {mg.name} are indices or truths, of which there are no decibels; "
            "give max_drop, the percentage of elements that may differ from the float model's"
        )


def measure_of(mg: MaseGraph, goal: Goal) -> Measure:
    """Return what the noise of options is measured of."""
    outputs, real = _computed(mg)
    if goal.max_drop is not None and len(real) == 1 == len(outputs):
        return Measure(real, by_confidence)
    return Measure(real if goal.max_drop is None and real else _behind(outputs))


def _computed(mg: MaseGraph) -> tuple[list[Node], list[Node]]:
    """Return the outputs that are computed, and those of them that are real."""
    outputs = list(dict.fromkeys(node for node in mg.outputs if node.op == "call_function"))
    return outputs, [node for node in outputs if is_real_result(node)]


def _behind(outputs: Sequence[Node]) -> list[Node]:
    """Return the nearest real results from which outputs are computed."""
    found: dict[Node, None] = {}
    waiting = list(outputs)
    while waiting:
        node = waiting.pop()
        if node.op == "call_function":
            if is_real_result(node):
                found[node] = None
            else:
                waiting += node.all_input_nodes
    return list(found)


def assured_db(mg: MaseGraph, node: Node, result: Result) -> float:
    """Return the signal over error that a result is sure to have at an output."""
    named = zip(mg.output_names, mg.outputs, strict=True)
    ratios = (result.assured(n) for n, output in named if output is node and n in result.outputs)
    return min(ratios, default=math.inf)
