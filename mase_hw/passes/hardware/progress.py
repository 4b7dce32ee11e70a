"""Check that a design cannot deadlock."""

from __future__ import annotations

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.timing.deadlock import check_progress


@graph_pass
def verify_progress_analysis_pass(mg: MaseGraph) -> Result:
    """Refuse a design that would deadlock, naming the loop.

    Args:
        mg: a graph that went through the hardware metadata pass.

    Returns:
        The graph, and `events`, the number of moves that were ordered, none without a fork, and
        `sampled`, whether only some beats of large nodes were looked at.

    Raises:
        EmissionError: when beats wait for each other.
    """
    events, sampled = check_progress(mg)
    return mg, {"events": events, "sampled": sampled}
