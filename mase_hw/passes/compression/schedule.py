"""Schedules of gradual pruning: the sparsity of every stage.

`cubic`: `s_k = s (1 - (1 - k / n)^3)` for stage k of n (Zhu & Gupta 2017, arXiv:1710.01878), fast
while much is redundant and slow at the end; `even`: `s_k = s k / n`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mase_hw._checks import check_integer, check_share
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
    end = check_share("pruning: sparsity", sparsity)
    count = check_integer("pruning: stages", stages, 1)
    return [end * SCHEDULES[name](number / count) for number in range(1, count + 1)]
