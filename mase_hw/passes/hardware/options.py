"""Choices that make hardware of a quantised graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mase_hw.graph.memory import GENERIC, ON_CHIP
from mase_hw.passes.hardware.memory import Memory
from mase_hw.passes.hardware.parallelism import Parallelism

FOLDED, UNROLLED = "folded", "unrolled"
DEFAULT_LEVELS = 2


@dataclass(frozen=True)
class Hardware:
    """Choices that make hardware of a quantised graph.

    Attributes:
        parallelism: elements per beat: a number, `auto`, or a table per node. A table may ask for
            a target instead (`mase_hw.hardware.explore`): `target_interval`, `target_fps` with
            `clock`, `max_lut`, `max_dsp`, `max_bram`.
        multipliers: the budget of `auto` without a target.
        memory: `on-chip`, or `external` for weights that come through one AXI4 port, or a table,
            see `mase_hw.passes.hardware.memory`.
        queues: depths of queues by name, in place of the computed ones.
        device: whose blocks may be used: `generic` for none, or `xcup`, where a DSP block makes two
            products. Simulations and other targets take the same without them.
        mode: `folded`, or `unrolled`: all constants in the logic, an inference a cycle.
        levels: adders of a stage of unrolled logic.
    """

    parallelism: Parallelism = 1
    multipliers: int = 64
    memory: Memory = ON_CHIP
    queues: Mapping[str, int] | None = None
    device: str = GENERIC
    mode: str = FOLDED
    levels: int = DEFAULT_LEVELS

    @property
    def folded(self) -> dict[str, Any]:
        """The arguments of `add_hardware_metadata_analysis_pass`."""
        return {key: value for key, value in vars(self).items() if key not in ("mode", "levels")}
