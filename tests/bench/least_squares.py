"""The coefficients of estimates, by least squares on cells that Yosys counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mase_hw.hardware._component_rules import EXACT

# Errors of cells below this many tables weigh as those of one with so many.
LEAST_LUT = 20
# How much coefficients that the cells leave open are drawn to one table each.
TIE = 0.15


@dataclass(frozen=True)
class Observation:
    """A cell and what was counted of it.

    Attributes:
        terms: amounts by coefficient.
        lut: look-up tables.
    """

    terms: Mapping[str, float]
    lut: float


def fitted(observations: Sequence[Observation]) -> dict[str, float]:
    """Return the non-negative coefficients of least relative errors."""
    names = sorted({name for item in observations for name in item.terms} - {EXACT})
    weights = np.array([1 / max(item.lut, LEAST_LUT) for item in observations])
    amounts = np.array([[item.terms.get(name, 0.0) for name in names] for item in observations])
    wanted = np.array([item.lut - item.terms.get(EXACT, 0.0) for item in observations])
    scaled = amounts * weights[:, None]
    ties = TIE * np.diag(np.sqrt((scaled**2).sum(axis=0)))
    found = _non_negative(
        np.vstack([scaled, ties]), np.concatenate([wanted * weights, ties.diagonal()])
    )
    return {name: round(float(value), 4) for name, value in zip(names, found, strict=True)}


def _non_negative(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the non-negative x of least squares, by active sets (Lawson, Hanson 1974)."""
    count = matrix.shape[1]
    free = np.zeros(count, dtype=bool)
    found = np.zeros(count)
    for _ in range(3 * count):
        gradient = matrix.T @ (wanted - matrix @ found)
        gradient[free] = -np.inf
        best = int(np.argmax(gradient))
        if free.all() or gradient[best] <= 1e-10:
            break
        free[best] = True
        while True:
            trial = np.zeros(count)
            trial[free] = np.linalg.lstsq(matrix[:, free], wanted, rcond=None)[0]
            negative = free & (trial <= 0)
            if not negative.any():
                found = trial
                break
            steps = found[negative] / (found[negative] - trial[negative])
            found = found + steps.min() * (trial - found)
            free &= found > 1e-12
    return found
