"""Chosen formats as files: a configuration, a table and a figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw._config_file import write_formats
from mase_hw._drawing import save_figure
from mase_hw._results import result_file, write_table
from mase_hw.precision.evaluation import Result
from mase_hw.precision.figures import PERCENT, Interval
from mase_hw.precision.fitted import Fitted
from mase_hw.precision.noise import STATE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONFIG, TABLE, FRONT, WEIGHTS = "formats.toml", "formats.csv", "front", "model.mase"
UNIFORM = "uniform"
FILES = (CONFIG, TABLE, WEIGHTS, f"{FRONT}.png", f"{FRONT}.svg", STATE)


def write(fitted: Fitted, folder: Path) -> Path:
    """Write `formats.toml`, `formats.csv`, the figure, and of changed weights `model.mase`.

    Returns the first of them.

    Raises:
        OutputError: when a file of others has one of the names.
    """
    path = folder / CONFIG
    weights = WEIGHTS if fitted.has_own_weights else None
    write_formats(path, fitted.config, fitted.parallelism, weights, head(fitted))
    if fitted.has_own_weights:
        with result_file(folder / WEIGHTS) as file:
            fitted.graph.save(file)
    write_table(folder / TABLE, map(asdict, fitted.rows))
    save_figure(folder / FRONT, lambda axes: _draw(axes, fitted))
    return path


def head(fitted: Fitted) -> list[str]:
    """Return the comments of the file of formats."""
    result, cost = fitted.result, fitted.result.cost
    lines = [
        f"Number formats of {fitted.name}, chosen for {fitted.goal}.",
        f"On {fitted.examples} held-out examples: {kept(result)}.",
        f"Nodes alone are estimated at {cost.lut:.0f} LUT, {cost.dsp:g} DSP, {cost.bram:g} BRAM.",
        *_beside_uniform(fitted),
    ]
    for word, is_kept in (("Needed with it", True), ("Tried, and left", False)):
        names = [f"{i.name} ({i.gain_db:+.1f} dB)" for i in fitted.tried if i.kept is is_kept]
        lines += [f"{word}: {', '.join(names)}."] if names else []
    lines += [f"Warning: {note}." for note in fitted.notes]
    if fitted.has_own_weights:
        lines.append(f"The weights that go with these formats are those of {WEIGHTS}.")
    return lines


def kept(result: Result) -> str:
    """Return agreement and accuracy, with 95 % intervals, as text."""

    def between(interval: Interval | None, scale: float, digits: int) -> str:
        if interval is None:
            return ""
        low, high = (f"{scale * end:.{digits}f}" for end in interval)
        return f", 95 % interval {low} to {high}"

    texts = []
    for name, item in result.outputs.items():
        scale = 1.0 if item.equal is None else PERCENT
        texts.append(f"{name} {item}{between(result.intervals.get(name), scale, 1)}")
    if result.accuracy is not None:
        interval = drop = None
        if result.scored is not None:
            interval, drop = result.scored.interval, result.scored.drop_interval
        texts.append(f"accuracy {result.accuracy:.4f}{between(interval, 1.0, 4)}")
        texts.append(f"points lost {(result.drop or 0.0) + 0.0:.2f}{between(drop, 1.0, 2)}")
    return "; ".join(texts)


def _beside_uniform(fitted: Fitted) -> Iterator[str]:
    uniform = [i for i in fitted.front if i.name.startswith(UNIFORM) and fitted.keeps(i)]
    if not uniform or not fitted.goal.bounds_loss:
        return
    other = min(uniform, key=lambda item: item.cost.order)
    more = fitted.result.cost - other.cost
    amounts = {"LUT": round(more.lut), "DSP": more.dsp, "BRAM": more.bram}
    amounts["bits of memory"] = round(more.memory_bits)
    texts = [f"{abs(v):g} {name} {'more' if v > 0 else 'less'}" for name, v in amounts.items() if v]
    if texts:
        yield f"Beside {other.name}, the cheapest uniform format: {', '.join(texts)}."


def to_dict(fitted: Fitted) -> dict[str, object]:
    """Return the fields as values of JSON."""
    return {
        "goal": str(fitted.goal),
        "examples": fitted.examples,
        "notes": list(fitted.notes),
        "float_accuracy": fitted.float_accuracy,
        "chosen": fitted.result.to_dict(),
        "front": [item.to_dict() for item in fitted.front],
        "preparations": [asdict(item) for item in fitted.tried],
        "operands": [asdict(row) for row in fitted.rows],
        "config": fitted.config,
    }


def _draw(axes: Axes, fitted: Fitted) -> None:
    by_drop = fitted.goal.max_drop is not None

    def point(item: Result) -> tuple[float, float]:
        kept = (item.drop or 0.0) if by_drop else min(item.sqnr_db, 200.0)
        return item.cost.weighed, kept

    uniform = [item for item in fitted.front if item.name.startswith(UNIFORM)]
    others = [point(item) for item in fitted.front if not item.name.startswith(UNIFORM)]
    front: list[tuple[float, float]] = []
    for cost, value in sorted([*others, point(fitted.result)], key=lambda item: item[0]):
        if not front or (value < front[-1][1] if by_drop else value > front[-1][1]):
            front.append((cost, value))
    axes.plot(*zip(*front, strict=True), marker="o", label="chosen among")
    for item in uniform:
        axes.plot(*point(item), "s", label=item.name)
    axes.plot(*point(fitted.result), "D", color="black", label="chosen")
    loss = "points of accuracy lost" if by_drop else "signal over error, dB"
    axes.set(xscale="log", xlabel="cost: LUT + 100 DSP + 300 BRAM, estimated", ylabel=loss)
    axes.set_title(f"{fitted.name}: {fitted.goal}")
    axes.legend(fontsize="small")
