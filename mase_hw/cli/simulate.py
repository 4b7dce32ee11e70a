"""`simulate`: stream inputs through an emitted project and check every output bit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import (
    HARDWARE,
    Count,
    Gate,
    OptionalCount,
    Probability,
    Project,
    command,
)
from mase_hw.cli._progress import Display


@command(HARDWARE)
def simulate(
    project: Project,
    *,
    engine: str = "native",
    inputs: Path | None = None,
    samples: OptionalCount = None,
    stall: Probability = 0.0,
    stalled: str = "both",
    seed: int = 0,
    waves: bool = False,
    probe: list[str] | None = None,
    queues: bool = False,
    resets: Annotated[int, typer.Option(min=0)] = 0,
    repeats: Count = 1,
    checks: bool | None = None,
    outputs: Path | None = None,
    gate: Gate,
    display: Display,
) -> None:
    """Simulate the project in DIR, and compare every bit with the integer reference.

    Options:
        engine: `native` (C++, fast) or cocotb (Python).
        inputs: real inputs: .npz with an array per model input (default: random codes).
        samples: inferences: random ones, or the first of --inputs.
        stall: probability that a port stalls in a cycle.
        stalled: which ports stall: inputs, outputs or both.
        seed: seed of random inputs, stalls and initial registers.
        waves: record a waveform, DIR/sim/waves.vcd.
        probe: also compare the stream of a node; may be repeated.
        queues: record the largest occupancy of each queue.
        resets: resets at random moments; inputs begin again after each.
        repeats: how often all inputs are streamed; memory stays constant.
        checks: also check the rules of every inner stream (default: with cocotb).
        outputs: save the results of the RTL: .npz with codes and values.
    """
    from mase_hw.cli._report import print_simulation
    from mase_hw.sim.simulate import simulate as run

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
            **vars(gate),
        )
    display.json(report.to_dict())
    print_simulation(project, report, display)
    if not report.is_right:
        raise typer.Exit(1)


@command(HARDWARE)
def report(
    project: Project,
    *,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE")] = None,
    inputs: Path | None = None,
    samples: OptionalCount = None,
    compare: Annotated[Path | None, typer.Option(metavar="DIR2")] = None,
) -> None:
    """Write one HTML page of the project in DIR: checks, graph, layers, ranges, timeline.

    Options:
        output: page to write (default: DIR.html).
        inputs: real inputs, .npz (default: the example inputs).
        samples: inputs that are compared layer by layer.
        compare: another project, shown beside the first.
    """
    from mase_hw.report import write_report

    display = Display()
    with display.stages(str(project)):
        path = write_report(project, output, inputs=inputs, samples=samples, compare=compare)
    display.say(f"{path} ({path.stat().st_size / 1024:,.0f} KiB)")
