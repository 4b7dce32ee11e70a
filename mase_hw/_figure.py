"""A measured figure beside the bar that it should reach."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        what: what was measured, with its conditions.
        measured: the figure, with its unit.
        bar: what it should reach; empty for a figure that is only reported.
        met: whether it does; None when there is no bar, or it could not be measured.
    """

    what: str
    measured: str
    bar: str = ""
    met: bool | None = None
