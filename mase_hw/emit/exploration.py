"""A parallelism for a target, and the front of what is possible."""

from __future__ import annotations

from collections.abc import Mapping

from mase_hw.emit.flow import lowered
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.memory import GENERIC, ON_CHIP
from mase_hw.hardware.explore import Explorer, Plan, fitting, split_targets
from mase_hw.passes.hardware.memory import Memory


def explored(
    mg: MaseGraph,
    *,
    parallelism: int | str | Mapping[str, object] = "auto",
    memory: Memory = ON_CHIP,
    queues: Mapping[str, int] | None = None,
    device: str = GENERIC,
    points: int = 12,
) -> tuple[Plan, list[Plan], int]:
    """Return the parallelism for a target, the front of what is possible, and the candidates.

    Args:
        mg: a quantised graph.
        parallelism: `auto`, or a table with targets and with what is fixed; see `to_hardware`.
            Without a target, the least resources.
        memory: where weights lie.
        queues: depths of queues by name.
        device: whose blocks may be used.
        points: of the front.

    Raises:
        ParallelismError: for a target that contradicts itself or cannot be met.
    """
    mg = lowered(mg)
    table = parallelism if isinstance(parallelism, Mapping) else {}
    fixed, targets = split_targets(table)
    explorer = Explorer.of(mg, fixed, device, memory)
    front = explorer.front(points)
    if targets is None:
        return front[0], front, explorer.count

    arguments = {"memory": memory, "queues": queues, "device": device}
    return fitting(explorer, mg, targets, arguments), front, explorer.count
