"""Figures as PNG and SVG; the same data give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mase_hw._kinds import Record
from mase_hw._results import result_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_INCHES, HEIGHT_INCHES = 7.0, 4.2
DOTS_PER_INCH = 140
# Of a legend: what stands beside a label, in characters; characters that fit into the width; and
# the height of a line.
MARK_CHARACTERS, LINE_CHARACTERS, LINE_INCHES = 8, 88, 0.22
# More whole numbers on an axis are thinned out.
MOST_TICKS = 12


def save_figure(
    path: Path, draw: Callable[[Axes], None], *, height: float = HEIGHT_INCHES
) -> list[Path]:
    """Draw one diagram and write it as `path.png` and `path.svg`.

    Args:
        path: file without a suffix.
        draw: draws on the axes it is given.
        height: in inches.

    Raises:
        OutputError: when a file of others has one of the names.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    draw(axes)
    files = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "svg")]
    settings: tuple[Record, ...] = (
        {"dpi": DOTS_PER_INCH, "metadata": {"Software": None}},
        {"metadata": {"Date": None}},
    )
    with matplotlib.rc_context({"svg.hashsalt": path.name, "svg.fonttype": "none"}):
        for file, options in zip(files, settings, strict=True):
            with result_file(file) as made:
                figure.savefig(made, **options)
    return files


def curves(
    series: Mapping[str, Sequence[tuple[Any, float, float]]], x_label: str, y_label: str
) -> Callable[[Axes], None]:
    """Return a drawing of curves with error bars.

    Args:
        series: by label, points (x, y, standard error); x that are no numbers become categories.
        x_label: of the axis.
        y_label: of the axis.
    """

    def draw(axes: Axes) -> None:
        for label, points in series.items():
            xs, ys, errors = zip(*points, strict=True)
            numbers = all(isinstance(x, int | float) for x in xs)
            shown = list(xs) if numbers else [str(x) for x in xs]
            axes.errorbar(shown, ys, yerr=errors, marker="o", capsize=3, label=label)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        whole = {x for points in series.values() for x, _, _ in points}
        if all(isinstance(x, int) for x in whole):
            whole_ticks(axes, sorted(whole))
        if len(series) > 1:
            legend_above(axes)

    return draw


def whole_ticks(axes: Axes, values: Sequence[int]) -> None:
    """Put the ticks of the x axis at whole numbers: those given, where they are few."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    few = len(values) <= MOST_TICKS
    axes.xaxis.set_major_locator(FixedLocator(values) if few else MaxNLocator(integer=True))


def legend_above(
    axes: Axes, handles: Sequence[Any] | None = None, labels: Sequence[str] | None = None
) -> None:
    """Write the legend above the axes in as many columns as fit; the figure grows by its lines."""
    if handles is None or labels is None:
        handles, labels = axes.get_legend_handles_labels()
    longest = max(len(text) for text in labels)
    columns = min(len(labels), max(1, LINE_CHARACTERS // (longest + MARK_CHARACTERS)))
    lines = -(-len(labels) // columns)
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.set_figheight(figure.get_figheight() + LINE_INCHES * (lines - 1))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def bars(values: Mapping[str, Mapping[str, float]], x_label: str) -> Callable[[Axes], None]:
    """Return a drawing of groups of horizontal bars: `values[group][bar]`."""

    def draw(axes: Axes) -> None:
        names = list(next(iter(values.values())))
        size = 0.8 / len(values)
        for number, (group, heights) in enumerate(values.items()):
            rows = [row + (number - (len(values) - 1) / 2) * size for row in range(len(names))]
            axes.barh(rows, [heights[name] for name in names], size, label=group)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel(x_label)
        if len(values) > 1:
            legend_above(axes)

    return draw


def spans(
    rows: Sequence[tuple[str, tuple[float, float], tuple[float, float]]], x_label: str
) -> Callable[[Axes], None]:
    """Return a drawing of observed ranges over those of their formats.

    Args:
        rows: (name, observed minimum and maximum, least and greatest representable value).
        x_label: of the axis.
    """

    def draw(axes: Axes) -> None:
        for row, (_, observed, limits) in enumerate(rows):
            axes.barh(row, limits[1] - limits[0], 0.7, limits[0], color="#c9d9ec")
            axes.barh(row, observed[1] - observed[0], 0.3, observed[0], color="#1f4e79")
        axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
        axes.invert_yaxis()
        axes.set_xlabel(x_label)
        axes.set_xscale("symlog", linthresh=0.1)
        handles = [axes.patches[0], axes.patches[1]] if rows else []
        if handles:
            legend_above(axes, handles, ["format", "observed"])

    return draw
