"""FPGA families, found by walking this folder and the entry points `mase_hw.targets`."""

from __future__ import annotations

from functools import cache

from mase_hw.errors import SynthesisError
from mase_hw.hardware.targets._base import Part, RoutableTarget, Target
from mase_hw.registry import discover

__all__ = ["Part", "RoutableTarget", "Target", "find_target", "targets"]


@cache
def targets() -> dict[str, Target]:
    """Return one instance of every family by name."""
    return {cls.name: cls() for cls in discover(__name__, Target, "mase_hw.targets")}  # type: ignore[type-abstract]


def find_target(name: str) -> Target:
    """Return the family of that name.

    Raises:
        SynthesisError: when there is none; the message lists all.
    """
    if name not in targets():
        raise SynthesisError(f"synthesis target is {name!r}; allowed: {', '.join(targets())}")
    return targets()[name]
