"""`explore`: a parallelism for a target, as a table, and the front of what is possible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mase_hw._results import result_file
from mase_hw.cli._files import claim
from mase_hw.cli._options import CHOICES, Clock, Config, Device, Json, Model
from mase_hw.cli._progress import Display

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mase_hw.hardware.explore import Plan


def register(app: typer.Typer) -> None:
    """Add the command `explore` to the application."""
    app.command("explore", rich_help_panel=CHOICES)(explore)


def explore(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to write (default: build/NAME-explore)."),
    ] = None,
    config: Config = None,
    target_interval: Annotated[
        int | None, typer.Option(help="Cycles an inference, at most.")
    ] = None,
    target_fps: Annotated[
        float | None,
        typer.Option(help="With --clock: inferences a second, at least."),
    ] = None,
    clock: Clock = None,
    max_lut: Annotated[int | None, typer.Option(help="Look-up tables, at most.")] = None,
    max_dsp: Annotated[int | None, typer.Option(help="DSP blocks, at most.")] = None,
    max_bram: Annotated[float | None, typer.Option(help="Block RAMs, at most.")] = None,
    device: Device = "generic",
    points: Annotated[int, typer.Option(min=2, help="Points of the Pareto front.")] = 12,
    json_output: Json = False,
) -> None:
    """Choose the parallelism of MODEL for a rate or a budget; write it and the Pareto front.

    Writes parallelism.toml, a table that --parallelism and a configuration file take, and
    front.svg.
    """
    from rich.table import Table

    from mase_hw.cli._model import load_subject, read_config, with_targets
    from mase_hw.emit.exploration import explored
    from mase_hw.emit.flow import quantize

    display = Display(quiet=json_output)
    targets = {
        "target_interval": target_interval,
        "target_fps": target_fps,
        "clock": clock,
        "max_lut": max_lut,
        "max_dsp": max_dsp,
        "max_bram": max_bram,
    }
    subject = load_subject(model, display)
    folder = output or Path("build") / f"{subject.mg.name}-explore"
    claim(folder, ("parallelism.toml", "front.svg"))
    settings = read_config(config).settle(subject)
    fixed = settings.parallelism if isinstance(settings.parallelism, dict) else "auto"
    asked = with_targets(fixed, targets)
    with display.stages(subject.mg.name):
        mg = subject.mg if subject.mg.is_quantized else quantize(subject.mg, settings.quantize)
        plan, front, considered = explored(
            mg,
            parallelism=asked,
            memory=settings.memory,
            queues=settings.queues,
            device=device,
            points=points,
        )
    with result_file(folder / "parallelism.toml") as made:
        made.write_text(plan.to_toml(mg.name))
    with result_file(folder / "front.svg") as made:
        _drawn(mg.name, front, plan).savefig(made, format="svg", metadata={"Date": None})
    if json_output:
        found = {
            **plan.to_dict(),
            "candidates": considered,
            "front": [item.to_dict() for item in front],
            "folder": str(folder),
        }
        typer.echo(json.dumps(found))
        return
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
    display.console.print(
        f"chosen, in the last row: {gap} of {considered:,} candidates; {folder}/parallelism.toml, "
        f"{folder}/front.svg",
        soft_wrap=True,
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
