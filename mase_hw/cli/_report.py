"""The table that ends a run: is the hardware the model, how good, how fast, how large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table

from mase_hw.cli._model import Subject
from mase_hw.cli._options import Checks, Gate
from mase_hw.cli._progress import Display

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from mase_hw.emit.design import Design, DesignSummary
    from mase_hw.emit.project import Project
    from mase_hw.graph import MaseGraph
    from mase_hw.graph.agreement import ModelAgreement
    from mase_hw.hardware.synth import SynthesisReport
    from mase_hw.sim.simulate import SimulationReport


@dataclass(frozen=True)
class Accuracy:
    """Share of the test set that is classified right, by three models of one network.

    Attributes:
        samples: samples of the test set that were run.
        float_model: the model as it was captured, with its own weights.
        unrounded: that model with the weights of a file, in real numbers; None without a file.
        quantized: the integer reference.
        rtl: the simulated hardware; None when it was not simulated.
    """

    samples: int
    float_model: float
    quantized: float
    rtl: float | None
    unrounded: float | None = None


@dataclass(frozen=True)
class Report:
    """What a run found."""

    project: Project
    simulation: SimulationReport | None
    accuracy: Accuracy | None
    synthesis: SynthesisReport | None

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serialisable description."""
        design = self.project.design
        return {
            "project": str(self.project.folder),
            "predicted_interval_cycles": design.interval_cycles,
            "predicted_latency_cycles": design.latency_cycles,
            "external_memory": design.external.to_dict() if design.external else None,
            "multipliers": sum(node.multipliers for node in design.nodes),
            "simulation": self.simulation.to_dict() if self.simulation else None,
            "accuracy": vars(self.accuracy) if self.accuracy else None,
            "synthesis": self.synthesis.to_dict() if self.synthesis else None,
            "agreement": design.agreement.to_dict() if design.agreement else None,
            "warnings": [*map(vars, self.project.warnings)],
        }


def check_tools(checks: Checks) -> None:
    """Raise unless what simulates and synthesizes is here: before anything is written."""
    if checks.simulate:
        from mase_hw.sim.simulate import check_engine

        check_engine(checks.engine)
    if checks.synth is not None:
        from mase_hw.hardware.targets import find_target

        find_target(checks.synth)


def evaluate(
    project: Project, subject: Subject, display: Display, checks: Checks, gate: Gate
) -> Report:
    """Simulate and synthesize as asked; inputs are the test set where the model has one."""
    simulation, accuracy, synthesis, samples = None, None, None, checks.samples
    inputs = subject.split.test_inputs[:samples] if subject.split else None
    if checks.simulate:
        from mase_hw.sim.simulate import simulate as run

        with display.stages(subject.mg.name):
            simulation = run(
                project.folder,
                inputs,
                samples=samples,
                engine=checks.engine,
                stall=checks.stall,
                **vars(gate),
            )
    if subject.split is not None:
        accuracy = measure_accuracy(project, subject, simulation, samples)
    if checks.synth is not None:
        from mase_hw.hardware.synth import synthesize

        with display.progress(f"synthesizing for {checks.synth}") as advance:
            synthesis = synthesize(project.folder, checks.synth, progress=steps(advance))
    return Report(project, simulation, accuracy, synthesis)


def steps(advance: Callable[[int, int], None]) -> Callable[[str], None]:
    """Return a function that advances a bar of unknown length by one named step."""
    count = 0

    def step(_: str) -> None:
        nonlocal count
        count += 1
        advance(count, count + 1)

    return step


def measure_accuracy(
    project: Project, subject: Subject, simulation: SimulationReport | None, samples: int | None
) -> Accuracy | None:
    """Classify the test set by the largest output of each model."""
    import torch

    from mase_hw.emit.project import load_reference

    assert subject.split is not None
    inputs, labels = subject.split.test_inputs[:samples], subject.split.test_labels[:samples]
    stream = project.design.inputs[0]
    original = subject.mg if subject.original is None else subject.original
    with torch.no_grad():
        scores = _in_real_numbers(original, inputs)
    codes = stream.spec.quantized.encode(inputs).reshape(-1, *stream.spec.shape)
    quantized = load_reference(project.folder)([codes])[project.design.outputs[0].node]

    def share(outputs: Tensor) -> float:
        predictions = outputs.reshape(len(labels), -1).argmax(dim=1)
        return float((predictions == labels).double().mean())

    rtl = None
    if simulation is not None:
        rtl = share(next(iter(simulation.outputs.values())))
    unrounded = None
    if subject.original is not None:
        with torch.no_grad():
            unrounded = share(_in_real_numbers(subject.mg, inputs))
    return Accuracy(len(labels), share(scores), share(quantized), rtl, unrounded)


def _in_real_numbers(mg: MaseGraph, inputs: Tensor) -> Tensor:
    """Return the scores of a graph with nothing rounded."""
    from mase_hw.graph.fills import float_run
    from mase_hw.training import scores_of

    return scores_of(float_run(mg)([inputs]))


def print_report(report: Report, display: Display) -> None:
    """Print the table of a whole run."""
    rows = _simulation_rows(report.simulation) if report.simulation else []
    measured = report.simulation and report.simulation.agreement
    rows += _agreement_rows(measured or report.project.design.agreement)
    rows += _rounding_rows(report.project.design)
    rows += _accuracy_rows(report.accuracy) if report.accuracy else []
    multipliers = sum(node.multipliers for node in report.project.design.nodes)
    rows.append(("multipliers", f"{multipliers:,}"))
    rows += _cycle_rows(report.project.design, report.simulation)
    if report.synthesis is not None:
        rows.append(_resource_row(report.synthesis))
    _print(f"{report.project.design.name} in {report.project.folder}", rows, display)
    print_failure(report.simulation, display)
    if report.synthesis is not None:
        display.console.print(report.synthesis.table())


def print_simulation(folder: Path, report: SimulationReport, display: Display) -> None:
    """Print the table of one simulation."""
    from mase_hw.emit.design import DesignSummary

    design = DesignSummary.load(folder)
    rows = [*_simulation_rows(report), *_rounding_rows(design), *_cycle_rows(design, report)]
    _print(str(folder), rows, display)
    if report.agreement is not None:
        line = f"agrees with the float model: {report.agreement}"
        display.say(line)
    print_failure(report, display)


def print_failure(simulation: SimulationReport | None, display: Display) -> None:
    """Say where a simulation went wrong."""
    if simulation is None:
        return
    for mark in simulation.queues:
        text = f"queue {mark.node}: {mark.high_water} of {mark.depth} beats used"
        display.say(text)
    if simulation.as_predicted is False:
        display.say(
            f"the cycles are not those that were predicted: latency {simulation.latency_cycles} "
            f"for {simulation.predicted_latency_cycles}, interval {simulation.interval_cycles} "
            f"for {simulation.predicted_interval_cycles}"
        )
    if simulation.agrees is False:
        agreement = simulation.agreement or "they were not compared with it"
        display.say(
            f"the outputs agree with the float model to less than {simulation.min_sqnr:g} dB: "
            f"{agreement}"
        )
    if simulation.bit_exact:
        return
    if simulation.first_mismatch is not None:
        display.say(simulation.first_mismatch)
    for violation in simulation.violations:
        display.say(f"stream rule broken: {violation}")


def _print(title: str, rows: list[tuple[str, str]], display: Display) -> None:
    table = Table(title=title)
    table.add_column("what")
    table.add_column("result", justify="right")
    for what, result in rows:
        table.add_row(what, result)
    display.console.print(table)


def _simulation_rows(simulation: SimulationReport) -> list[tuple[str, str]]:
    return [
        ("bit-exact", "yes" if simulation.bit_exact else "NO"),
        ("elements compared", f"{simulation.elements:,}"),
        ("elements that differ", f"{simulation.mismatches:,}"),
        ("inferences simulated", f"{simulation.inferences:,} ({simulation.engine})"),
        ("cycles simulated", f"{simulation.cycles:,}"),
        ("cycles per second", f"{simulation.cycles_per_second:,.0f}"),
    ]


def _agreement_rows(agreement: ModelAgreement | None) -> list[tuple[str, str]]:
    return [("agrees with the float model", str(agreement))] if agreement else []


def _rounding_rows(design: Design | DesignSummary) -> list[tuple[str, str]]:
    kept, every = design.roundings
    return [("roundings of the model kept", f"{kept} of {every}")] if every else []


def _accuracy_rows(accuracy: Accuracy) -> list[tuple[str, str]]:
    rows = [
        (f"accuracy, float ({accuracy.samples} test samples)", f"{accuracy.float_model:.4f}"),
        ("accuracy, quantized", f"{accuracy.quantized:.4f}"),
    ]
    if accuracy.unrounded is not None:
        rows.insert(1, ("accuracy, given weights unrounded", f"{accuracy.unrounded:.4f}"))
    if accuracy.rtl is not None:
        rows.append(("accuracy, measured on the RTL", f"{accuracy.rtl:.4f}"))
    return rows


def _cycle_rows(
    design: Design | DesignSummary, simulation: SimulationReport | None
) -> list[tuple[str, str]]:
    """Return predictions beside measurements; stalled ports measure the stalls."""
    from mase_hw.sim.simulate import judged_from

    measured = simulation if simulation is not None and simulation.stall == 0 else None
    rows, least = [], judged_from(design)
    for what, predicted, seen in (
        ("latency", design.latency_cycles, measured and measured.latency_cycles),
        ("interval", design.interval_cycles, measured and measured.interval_cycles),
    ):
        rows.append((f"{what}, predicted (cycles)", f"{predicted:,}"))
        if seen is not None:
            rows.append((f"{what}, simulated (cycles)", f"{seen:,}"))
    if measured and measured.interval_cycles is not None and measured.inferences < least:
        rows[-1] = (f"{rows[-1][0]}, judged from {least} inferences on", rows[-1][1])
    if design.external is not None:
        rows.append(("memory port, predicted (cycles)", f"{design.external.cycles:,}"))
        rows.append(("external memory (bytes)", f"{design.external.bytes:,}"))
    return rows


def _resource_row(synthesis: SynthesisReport) -> tuple[str, str]:
    total = synthesis.total
    return (
        f"LUT / FF / DSP / BRAM ({synthesis.target})",
        f"{total.lut:,} / {total.ff:,} / {total.dsp} / {total.bram:g}",
    )
