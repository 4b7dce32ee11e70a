"""Bounds of loss and resources for the formats of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mase_hw.errors import ConfigError
from mase_hw.precision.evaluation import Result

ASKED = ("min_sqnr", "max_drop", "max_lut", "max_bram")


@dataclass(frozen=True)
class Goal:
    """A bound on what is lost, on what the hardware takes, or on both.

    Attributes:
        min_sqnr: signal over error against the float model that every output keeps, decibels.
        max_drop: points of accuracy that are lost at most, or of outputs that are no reals the
            percentage of elements that may differ from the float model's.
        max_lut: look-up tables of all nodes, at most.
        max_bram: block RAMs of all nodes, at most.

    Raises:
        ConfigError: when nothing is asked, or what no model keeps.
    """

    min_sqnr: float | None = None
    max_drop: float | None = None
    max_lut: float | None = None
    max_bram: float | None = None

    def __post_init__(self) -> None:
        bounds = {name: getattr(self, name) for name in ASKED}
        bounds = {name: value for name, value in bounds.items() if value is not None}
        if not bounds:
            raise ConfigError(
                "nothing is asked of the formats; give min_sqnr (decibels) or max_drop (points of "
                "accuracy) for the least hardware, or max_lut or max_bram for the best agreement"
            )
        for name, value in bounds.items():
            least = -math.inf if name == "min_sqnr" else 0.0
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and least <= value < math.inf):
                legal = "a number" if name == "min_sqnr" else "a number from 0"
                raise ConfigError(f"{name} is {value!r}; allowed: {legal}")
        if self.min_sqnr is not None and self.max_drop is not None:
            raise ConfigError("min_sqnr and max_drop both say what may be lost; give one of them")

    @property
    def budgets(self) -> dict[str, float]:
        """The most of each resource, by its name."""
        budgets = {"lut": self.max_lut, "bram": self.max_bram}
        return {name: most for name, most in budgets.items() if most is not None}

    @property
    def bounds_loss(self) -> bool:
        """Whether it says how much may be lost."""
        return self.min_sqnr is not None or self.max_drop is not None

    def holds(self, result: Result) -> bool:
        """Return true for a result within all bounds, as far as its samples tell."""
        lost = self.max_drop is not None and result.assured_drop > self.max_drop
        noisy = self.min_sqnr is not None and result.assured_db < self.min_sqnr
        return not (lost or noisy or result.cost.beyond(self.budgets))

    def __str__(self) -> str:
        """Return `min_sqnr 30`, for messages."""
        bounds = {name: getattr(self, name) for name in ASKED}
        return ", ".join(f"{name} {value:g}" for name, value in bounds.items() if value is not None)
