"""Figures: nothing cut off, whole numbers where whole numbers are meant, bands of each value."""

import itertools

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mase_hw._drawing import curves, save_figure
from mase_hw.experiments._figures import draw_best_so_far, new_figure
from mase_hw.experiments.number_formats import draw
from mase_hw.training import standard_error


def drawn(draw, height=4.2):
    figure = Figure(figsize=(7.0, height), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw(axes)
    canvas.draw()
    return figure, axes, canvas.get_renderer()


def series(count, widths=(3, 4, 5)):
    name = "steps.0.sparsity={}, steps.2.config.default.config.weight_width=4, observer=mse"
    return {name.format(n / 10): [(w, 80.0 + n, 1.0) for w in widths] for n in range(count)}


@pytest.mark.parametrize("count", [2, 9])
def test_a_legend_is_not_cut_off(count, tmp_path):
    figure, axes, renderer = drawn(curves(series(count), "data_in_width", "accuracy, %"))
    (legend,) = figure.legends
    box, page = legend.get_window_extent(renderer), figure.bbox
    assert box.x0 >= 0
    assert box.x1 <= page.x1
    assert box.y1 <= page.y1
    assert box.y0 >= axes.get_window_extent(renderer).y1
    assert axes.get_window_extent(renderer).height > 0.4 * 4.2 * figure.dpi
    assert len(legend.get_texts()) == count
    for path in save_figure(tmp_path / "sweep", curves(series(count), "x", "y")):
        assert path.stat().st_size > 1000


@pytest.mark.parametrize("widths", [(4, 5), (3, 4, 8), tuple(range(1, 40))])
def test_whole_numbers_have_ticks_at_whole_numbers(widths):
    _, axes, _ = drawn(curves(series(1, widths), "width", "accuracy, %"))
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert len(ticks) >= 2
    assert all(float(tick).is_integer() for tick in ticks)
    if len(widths) < 10:
        assert ticks == list(widths)


def test_bands_are_the_standard_errors_of_each_value():
    figure, (axes,) = new_figure()
    values = [0.5, 0.5, 0.99]
    draw_best_so_far(axes, {"random": values}, 100, "digits")
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices
    for trial, value in ((1, 0.5), (3, 0.99)):
        at = heights[heights[:, 0] == trial][:, 1]
        error = 100 * standard_error(value, 100)
        assert at.max() == pytest.approx(100 * value + error)
    assert figure is axes.figure


def test_every_format_has_a_line_of_its_own():
    rows = [(f"format_{index}", 97.0 - index, 1, 4.25) for index in range(23)]
    figure = draw(rows, [[0.5, row[1] / 100] for row in rows], "bert-tiny")
    FigureCanvasAgg(figure).draw()
    accuracies = figure.axes[0]
    boxes = [text.get_window_extent() for text in accuracies.get_yticklabels()]
    assert [text.get_text() for text in accuracies.get_yticklabels()] == [row[0] for row in rows]
    tops = sorted(boxes, key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 for low, high in itertools.pairwise(tops))


def test_figures_are_as_wide_as_a_page():
    """Text of ten points is then read at 700 pixels."""
    for panels in (1, 2, 4):
        figure, axes = new_figure(panels)
        assert figure.get_figwidth() * 100 <= 700
        assert len(axes) == panels
