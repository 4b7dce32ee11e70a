"""Axes that every figure shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mase_hw.training import standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

WIDTH_INCHES, HEIGHT_INCHES = 6.4, 4.0
MARKERS = "osD^vP*X<>"
# Between ends of a logarithmic axis, beyond which only decades have numbers.
MANY = 1e3


def new_figure(panels: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes one below the other, as wide as a page."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES * panels), layout="constrained")
    axes = [figure.add_subplot(panels, 1, index + 1) for index in range(panels)]
    for item in axes:
        item.grid(visible=True, alpha=0.3)
    return figure, axes


def draw_accuracies(
    axes: Axes, across: Sequence[float], curves: Mapping[str, Sequence[float]], samples: int
) -> None:
    """Draw shares of samples with their standard errors; curves named `before ...` are dashed.

    Args:
        axes: to draw on.
        across: positions of the points of every curve.
        curves: shares by name.
        samples: on which each share was measured.
    """
    colors: dict[str, str] = {}
    for name, values in curves.items():
        kind = name.removeprefix("before ")
        axes.errorbar(
            across,
            [100 * value for value in values],
            [100 * standard_error(value, samples) for value in values],
            color=colors.setdefault(kind, f"C{len(colors)}"),
            marker=MARKERS[list(colors).index(kind)],
            linestyle="--" if name != kind else "-",
            markersize=4,
            capsize=2,
            label=name,
        )


def label(axes: Axes, title: str, across: str, up: str) -> None:
    """Write title and axis labels."""
    axes.set_title(title)
    axes.set_xlabel(across)
    axes.set_ylabel(up)


def logarithmic(axis: Axis) -> None:
    """Make an axis logarithmic, with a number at every decade, of few ones at 2 and 5, too."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    low, high = axis.get_data_interval()
    few = high < MANY * max(low, 1e-9)
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})  # type: ignore[attr-defined]
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def draw_best_so_far(
    axes: Axes, curves: Mapping[str, Sequence[float]], samples: int, title: str
) -> None:
    """Draw accuracies so far against the number of trials, with their standard errors as bands.

    Args:
        axes: to draw on.
        curves: shares by name.
        samples: on which each share was measured.
        title: of the axes.
    """
    for index, (name, values) in enumerate(curves.items()):
        trials = range(1, len(values) + 1)
        percent = [100 * value for value in values]
        # Later curves are thinner, so that one on top of another shows.
        size = len(curves) - index
        (line,) = axes.step(trials, percent, where="post", label=name, lw=0.7 + 0.8 * size)
        line.set(marker=MARKERS[index % len(MARKERS)], markersize=2.5 + 1.5 * size)
        errors = [100 * standard_error(value, samples) for value in values]
        low = [value - error for value, error in zip(percent, errors, strict=True)]
        high = [value + error for value, error in zip(percent, errors, strict=True)]
        axes.fill_between(trials, low, high, step="post", alpha=0.1, color=line.get_color())
    axes.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    # Below the axes: bands and curves leave no room inside.
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=4, frameon=False)
    label(axes, title, "trials", "best accuracy so far, %")
