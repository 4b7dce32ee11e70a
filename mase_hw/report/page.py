"""The page: one file of HTML that needs nothing else."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from mase_hw._resources import template_environment
from mase_hw._results import check_result, result_file
from mase_hw.graph.agreement import decibels
from mase_hw.report import charts
from mase_hw.report.facts import STALL, Facts, Layer, beats, collect, covered, curves, spans

TEMPLATE = "report/page.html.j2"
WINDOW_CYCLES = 16


def write_report(
    project: Path | str,
    output: Path | str | None = None,
    *,
    inputs: object = None,
    samples: int | None = None,
    compare: Path | str | None = None,
) -> Path:
    """Simulate an emitted project and write one HTML page of it.

    Args:
        project: the emitted folder.
        output: the file; by default `NAME.html` beside the folder.
        inputs: real values for the layers, see `mase_hw.sim.compare.compare`; the example inputs
            without them.
        samples: how many of them.
        compare: another emitted folder, which the page shows beside this one.

    Returns:
        The path of the page.

    Raises:
        EmissionError: when a folder is no project.
        SimulationError: when it cannot be simulated.
        OutputError: when a file of others has the name.
    """
    folder = Path(project)
    path = Path(output) if output is not None else folder.with_name(f"{folder.name}.html")
    check_result(path)
    facts = collect(folder, inputs, samples=samples)
    other = collect(Path(compare), inputs, samples=samples) if compare is not None else None
    with result_file(path) as target:
        target.write_text(render(facts, other), encoding="utf-8")
    return path


def render(facts: Facts, other: Facts | None = None) -> str:
    """Return the text of the page."""
    environment = template_environment().overlay(autoescape=True)
    entering, leaving = beats(facts)
    rows, cycles = spans(facts)
    first = min((item.cycle for _, sent in leaving for item in sent), default=0)
    return environment.get_template(TEMPLATE).render(
        facts=facts,
        other=other,
        stall=STALL,
        sides=_sides(facts, other) if other else [],
        decibels=decibels,
        details={layer.name: _details(layer) for layer in facts.layers},
        graph=Markup(_graph(facts.graph)),
        agreement=Markup(charts.bars([*_losses(facts.layers)])),
        resources=Markup(charts.bars([*_tables(facts.layers)])),
        ranges=Markup(charts.ranges(covered(facts))),
        timeline=Markup(charts.timeline(rows, cycles)),
        queues=[
            (item, Markup(charts.line(item.samples, item.depth, f"beats in {item.name}")))
            for item in curves(facts)
        ],
        entering=Markup(charts.waveform(_window(entering, 0), 0, WINDOW_CYCLES)),
        leaving=Markup(charts.waveform(_window(leaving, first), first, WINDOW_CYCLES)),
    )


def _window(
    rows: Sequence[tuple[str, list[charts.Beat]]], start: int
) -> list[tuple[str, list[charts.Beat]]]:
    end = start + WINDOW_CYCLES
    return [(name, [item for item in row if start <= item.cycle < end]) for name, row in rows]


def _graph(svg: str) -> str:
    """Return a drawing whose style is the page's, and whose boxes can be reached by keyboard."""
    text = re.sub(r"<style>.*?</style>", "", svg, flags=re.DOTALL)
    text = re.sub(
        r'<g id="([^"]+)">', r'<g class="node" data-node="\1" tabindex="0" role="button">', text
    )
    return text.replace("<svg ", '<svg class="graph" role="group" aria-label="graph" ', 1)


def _losses(layers: Sequence[Layer]) -> Iterator[charts.Bar]:
    """Yield signal over error of each layer, the worst ones marked."""
    told = [layer for layer in layers if layer.values and layer.values.is_seen]
    measured = [layer for layer in told if layer.tensor_db is not None]
    ratios = {layer.name: layer.tensor_db or 0.0 for layer in measured}
    finite = [ratio for ratio in ratios.values() if math.isfinite(ratio)]
    most, least = max(finite, default=0.0), min(finite, default=0.0)
    for layer in measured:
        ratio = ratios[layer.name]
        style = "bar bad" if ratio <= least + 1 else "bar"
        yield charts.Bar(layer.name, max(0.0, min(ratio, most)), decibels(ratio), style)


def _tables(layers: Sequence[Layer]) -> Iterator[charts.Bar]:
    for layer in layers:
        if layer.estimate.lut:
            yield charts.Bar(layer.name, layer.estimate.lut, f"{layer.estimate.lut:,.0f}")


def _details(layer: Layer) -> list[tuple[str, str]]:
    rows = [
        ("operator", layer.operator),
        ("source", layer.source or "-"),
        ("result", f"{layer.shape}, {layer.format}, parallelism {layer.parallelism}"),
        ("module", layer.module or "wires"),
        ("cycles of work", f"{layer.cycles:,} ({100 * layer.share:.0f} % of the interval)"),
    ]
    if layer.clipped:
        rows.append(("clipped", f"{100 * layer.clipped:.2f} % of its elements"))
    if layer.tensor_db is not None:
        rows.append(("signal over error of the tensor", decibels(layer.tensor_db)))
    if layer.values is not None and layer.values.largest_error is not None:
        rows.append(("largest error", f"{layer.values.largest_error:.3g}"))
    return rows


def _sides(facts: Facts, other: Facts) -> list[tuple[str, str, str]]:
    """Both projects side by side, the summary first and then layers of one name."""
    rows = [
        (name, _text(value), _text(other.numbers[name])) for name, value in facts.numbers.items()
    ]
    theirs = {layer.name: layer for layer in other.layers}
    for layer in facts.layers:
        rows.append((layer.name, _short(layer), _short(theirs.get(layer.name))))
    own = {layer.name for layer in facts.layers}
    rows += [(name, "-", _short(layer)) for name, layer in theirs.items() if name not in own]
    return rows


def _short(layer: Layer | None) -> str:
    if layer is None:
        return "-"
    size = f"{layer.cycles:,} cycles, {layer.estimate.lut:,.0f} LUT"
    return f"{layer.format}, {size}, {decibels(layer.tensor_db)}"


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
