"""A parallelism for a target, and the front of what is possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from mase_hw._kinds import Setting
from mase_hw.emit.flow import lowered
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.hardware.estimate import estimate
from mase_hw.hardware.explore import Explorer, Plan, fitting, split_targets
from mase_hw.passes.hardware.options import UNROLLED, Hardware
from mase_hw.unrolled.network import unrolled


def explored(
    mg: MaseGraph, *, points: int = 12, **options: Setting
) -> tuple[Plan, list[Plan], int]:
    """Return the parallelism for a target, the front of what is possible, and the candidates.

    Args:
        mg: a quantised graph.
        points: of the front.
        options: fields of `mase_hw.passes.hardware.options.Hardware`; a table of parallelism has
            targets and what is fixed. Without a target, the least resources.

    Raises:
        ParallelismError: for a target that contradicts itself or cannot be met.
    """
    mg = lowered(mg)
    hardware = Hardware(**options)
    table = hardware.parallelism if isinstance(hardware.parallelism, Mapping) else {}
    fixed, targets = split_targets(table)
    explorer = Explorer.of(mg, fixed, hardware.device, hardware.memory)
    front = [*explorer.front(points), *_unrolled(mg)]
    if targets is None:
        return front[0], front, explorer.count
    return fitting(explorer, mg, targets, hardware.folded), front, explorer.count


def _unrolled(mg: MaseGraph) -> Iterator[Plan]:
    """Yield the network as logic, where it has one, as the end of the front."""
    try:
        cost = estimate(unrolled(mg, Hardware(mode=UNROLLED)))
    except (ConfigError, UnsupportedError):
        return
    yield Plan({}, 1, replace(cost, lut=round(cost.lut)), slowest=f"none: --mode {UNROLLED}")
