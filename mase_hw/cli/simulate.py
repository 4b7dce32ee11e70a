"""`simulate`: stream inputs through an emitted project and check every output bit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import HARDWARE, Gated, Json, MinSqnr
from mase_hw.cli._progress import Display


def register(app: typer.Typer) -> None:
    """Add the command `simulate` to the application."""
    app.command("simulate", rich_help_panel=HARDWARE)(simulate)


def simulate(
    project: Annotated[Path, typer.Argument(metavar="DIR", help="An emitted project.")],
    engine: Annotated[str, typer.Option(help="native (C++, fast) or cocotb (Python).")] = "native",
    inputs: Annotated[
        Path | None,
        typer.Option(
            help="Real inputs: .npz with an array per model input (default: random codes)."
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Inferences: random ones, or the first of --inputs.")
    ] = None,
    stall: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Probability that a port stalls in a cycle.")
    ] = 0.0,
    stalled: Annotated[
        str, typer.Option(help="Which ports stall: inputs, outputs or both.")
    ] = "both",
    seed: Annotated[
        int, typer.Option(help="Seed of random inputs, stalls and initial registers.")
    ] = 0,
    waves: Annotated[
        bool, typer.Option("--waves", help="Record a waveform, DIR/sim/waves.vcd.")
    ] = False,
    probe: Annotated[
        list[str] | None, typer.Option(help="Also compare the stream of a node; may be repeated.")
    ] = None,
    queues: Annotated[
        bool, typer.Option("--queues", help="Record the largest occupancy of each queue.")
    ] = False,
    resets: Annotated[
        int, typer.Option(min=0, help="Resets at random moments; inputs begin again after each.")
    ] = 0,
    repeats: Annotated[
        int, typer.Option(min=1, help="How often all inputs are streamed; memory stays constant.")
    ] = 1,
    checks: Annotated[
        bool | None,
        typer.Option(
            "--checks/--no-checks",
            help="Also check the rules of every inner stream (default: with cocotb).",
        ),
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option(help="Save the results of the RTL: .npz with codes and values.")
    ] = None,
    min_sqnr: MinSqnr = None,
    agreement: Gated = "channel",
    json_output: Json = False,
) -> None:
    """Simulate the project in DIR, and compare every bit with the integer reference."""
    from mase_hw.cli._report import print_simulation
    from mase_hw.sim.simulate import simulate as run

    display = Display(quiet=json_output)
    with display.stages(str(project)):
        report = run(
            project,
            inputs,
            samples=samples,
            engine=engine,
            stall=stall,
            stalled=stalled,
            seed=seed,
            waves=waves,
            probes=probe or (),
            queues=queues,
            resets=resets,
            repeats=repeats,
            checks=checks,
            outputs=outputs,
            min_sqnr=min_sqnr,
            agreement=agreement,
        )
    if json_output:
        typer.echo(report.to_json())
    else:
        print_simulation(project, report, display)
    if not report.is_right:
        raise typer.Exit(1)
