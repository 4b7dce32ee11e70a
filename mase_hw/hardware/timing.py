"""Predicted cycles of a design, from the schedules of its operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch.fx import Node

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.graph.streams import stream_operands
from mase_hw.ops._base import Cycles


@dataclass(frozen=True)
class Prediction:
    """Cycles of a design.

    Attributes:
        interval_cycles: cycles per inference in steady state: the work of the slowest node, or
            the beats of the longest port.
        latency_cycles: cycles from the first beat in to the last beat out, from idle, with inputs
            that are always there and outputs that are always taken.
        work_cycles: cycles that one inference occupies each node.
    """

    interval_cycles: int
    latency_cycles: int
    work_cycles: dict[str, int]


def predict(mg: MaseGraph) -> Prediction:
    """Return the prediction for a graph with parallelism."""
    offered: dict[Node, Cycles] = {}
    work: dict[str, int] = {}
    for node in mg.nodes:
        if node.op == "placeholder":
            offered[node] = np.arange(spec(node).beats)
            work[node.name] = spec(node).beats
        elif node.op == "call_function":
            call = mg.call(node)
            arrivals = {name: offered[producer] for name, producer in stream_operands(node)}
            offered[node] = call.operator.schedule(call, arrivals)
            work[node.name] = call.operator.work_cycles(call)
    latency = max(int(offered[node][-1]) for node in output_nodes(mg))
    return Prediction(max(work.values()), latency, work)
