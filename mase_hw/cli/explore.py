"""`explore`: a parallelism for a target, as a table, and the front of what is possible."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mase_hw._results import result_file
from mase_hw.cli._files import claim
from mase_hw.cli._options import CHOICES, Config, Device, Examples, Model, Output, Targets, command
from mase_hw.cli._progress import Display

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mase_hw.hardware.explore import Plan


@command(CHOICES)
def explore(
    model: Model,
    *,
    inputs: Examples = None,
    output: Output = None,
    config: Config = None,
    targets: Targets,
    device: Device = "generic",
    points: Annotated[int, typer.Option(min=2)] = 12,
    display: Display,
) -> None:
    """Choose the parallelism of MODEL for a rate or a budget; write it and the Pareto front.

    Writes parallelism.toml, a table that --parallelism and a configuration file take, and
    front.svg.

    Options:
        output: folder to write (default: build/NAME-explore).
        points: points of the Pareto front.
    """
    from rich.table import Table

    from mase_hw.cli._model import load_subject, read_config
    from mase_hw.emit.exploration import explored
    from mase_hw.emit.flow import quantize

    subject = load_subject(model, display, inputs=inputs)
    folder = output or Path("build") / f"{subject.mg.name}-explore"
    claim(folder, ("parallelism.toml", "front.svg"))
    tables = read_config(config, targets=targets, device=device)
    if not isinstance(tables.parallelism, dict):
        tables = replace(tables, parallelism="auto")
    settings = tables.settle(subject)
    with display.stages(subject.mg.name):
        mg = subject.mg if subject.mg.is_quantized else quantize(subject.mg, settings.quantize)
        plan, front, considered = explored(mg, points=points, **vars(settings.hardware))
    with result_file(folder / "parallelism.toml") as path:
        path.write_text(plan.to_toml(mg.name))
    with result_file(folder / "front.svg") as path:
        _drawn(mg.name, front, plan).savefig(path, format="svg", metadata={"Date": None})
    points_of_front = [item.to_dict() for item in front]
    entries = {"candidates": considered, "front": points_of_front, "folder": str(folder)}
    display.json({**plan.to_dict(), **entries})
    table = Table("interval", "LUT", "DSP", "BRAM", "slowest node", title=f"Front of {mg.name}")
    for item in [*front, plan]:
        if item is plan:
            table.add_section()
        cost = item.cost
        table.add_row(
            f"{item.interval:,}", f"{cost.lut:,}", f"{cost.dsp:,}", f"{cost.bram:g}", item.slowest
        )
    display.console.print(table)
    gap = f"within {plan.gap:.1%} of the least" if plan.gap else "proved least"
    display.say(
        f"chosen, in the last row: {gap} of {considered:,} candidates; {folder}/parallelism.toml, "
        f"{folder}/front.svg"
    )


def _drawn(name: str, front: list[Plan], plan: Plan) -> Figure:
    """Draw interval against LUT and DSP."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    FigureCanvasSVG(figure)
    for axes, what, unit in zip(
        figure.subplots(1, 2), ("lut", "dsp"), ("LUT", "DSP blocks"), strict=True
    ):
        axes.plot(
            [item.interval for item in front],
            [getattr(item.cost, what) for item in front],
            marker="o",
            markersize=4,
            label="least cost",
        )
        axes.plot([plan.interval], [getattr(plan.cost, what)], "D", color="C3", label="chosen")
        axes.set(xscale="log", yscale="log", xlabel="cycles an inference", ylabel=unit)
        axes.grid(alpha=0.3, which="both")
        axes.legend()
    figure.suptitle(f"{name}: nodes alone, estimated")
    return figure
