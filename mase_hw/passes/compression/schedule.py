"""Schedules of gradual pruning: the sparsity of every stage.

`cubic`: `s_k = s (1 - (1 - k / n)^3)` for stage k of n (Zhu & Gupta 2017, arXiv:1710.01878), fast
while much is redundant and slow at the end; `even`: `s_k = s k / n`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mase_hw.errors import ConfigError
from mase_hw.registry import nearest

SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "cubic": lambda share: 1.0 - (1.0 - share) ** 3,
    "even": lambda share: share,
}


def sparsity_schedule(name: str, sparsity: object, stages: object) -> list[float]:
    """Return the sparsity of every stage, the last one `sparsity`.

    Args:
        name: `cubic` or `even`.
        sparsity: in the end, from 0 to below 1.
        stages: number of stages.

    Raises:
        ConfigError: for an unknown schedule, or a number out of range.
    """
    if name not in SCHEDULES:
        raise ConfigError(f"pruning: schedule is {name!r}; {nearest(str(name), SCHEDULES)}")
    if not isinstance(sparsity, int | float) or not 0 <= sparsity < 1:
        raise ConfigError(f"pruning: sparsity is {sparsity!r}; allowed: from 0 to below 1")
    if not isinstance(stages, int) or isinstance(stages, bool) or stages < 1:
        raise ConfigError(f"pruning: stages is {stages!r}; allowed: a number from 1")
    return [sparsity * SCHEDULES[name](number / stages) for number in range(1, stages + 1)]
