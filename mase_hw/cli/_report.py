"""The table that ends a run: is the hardware the model, how good, how fast, how large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from mase_hw.cli._model import Subject
from mase_hw.cli._progress import Display

if TYPE_CHECKING:
    from torch import Tensor

    from mase_hw.emit.project import Project
    from mase_hw.hardware.synth import SynthesisReport
    from mase_hw.sim.simulate import SimulationReport


@dataclass(frozen=True)
class Accuracy:
    """Share of the test set that is classified right, by three models of one network.

    Attributes:
        samples: samples of the test set that were run.
        float_model: the captured model.
        quantized: the integer reference.
        rtl: the simulated hardware; None when it was not simulated.
    """

    samples: int
    float_model: float
    quantized: float
    rtl: float | None


@dataclass(frozen=True)
class Report:
    """What a run found."""

    project: Project
    simulation: SimulationReport | None
    accuracy: Accuracy | None
    synthesis: SynthesisReport | None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        design = self.project.design
        return {
            "project": str(self.project.folder),
            "predicted_interval_cycles": design.interval_cycles,
            "predicted_latency_cycles": design.latency_cycles,
            "multipliers": sum(node.multipliers for node in design.nodes),
            "simulation": self.simulation.to_dict() if self.simulation else None,
            "accuracy": vars(self.accuracy) if self.accuracy else None,
            "synthesis": self.synthesis.to_dict() if self.synthesis else None,
        }


def evaluate(
    project: Project,
    subject: Subject,
    display: Display,
    *,
    simulate: bool,
    engine: str,
    samples: int | None,
    stall: float,
    target: str | None,
) -> Report:
    """Simulate and synthesize as asked; inputs are the test set where the model has one."""
    simulation, accuracy, synthesis = None, None, None
    inputs = subject.split.test_inputs[:samples] if subject.split else None
    if simulate:
        simulation = run_simulation(
            project, inputs, display, engine=engine, samples=samples, stall=stall
        )
    if subject.split is not None:
        accuracy = measure_accuracy(project, subject, simulation, samples)
    if target is not None:
        from mase_hw.hardware.synth import synthesize

        with display.progress(f"synthesizing for {target}") as advance:
            synthesis = synthesize(project.folder, target, progress=steps(advance))
    return Report(project, simulation, accuracy, synthesis)


def run_simulation(
    project: Project,
    inputs: Tensor | None,
    display: Display,
    *,
    engine: str,
    samples: int | None,
    stall: float,
) -> SimulationReport:
    """Simulate with a progress bar."""
    from mase_hw.sim.simulate import simulate

    with display.progress(f"simulating ({engine})") as advance:
        return simulate(
            project.folder, inputs, samples=samples, engine=engine, stall=stall, progress=advance
        )


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
    with torch.no_grad():
        scores = subject.mg(inputs)
    codes = stream.spec.quantized.encode(inputs).reshape(-1, *stream.spec.shape)
    quantized = load_reference(project.folder)([codes])[project.design.outputs[0].node]

    def share(outputs: Tensor) -> float:
        predictions = outputs.reshape(len(labels), -1).argmax(dim=1)
        return float((predictions == labels).double().mean())

    rtl = None
    if simulation is not None:
        rtl = share(next(iter(simulation.outputs.values())))
    return Accuracy(len(labels), share(scores), share(quantized), rtl)


def print_report(report: Report, display: Display) -> None:
    """Print the table."""
    table = Table(title=f"{report.project.design.name} in {report.project.folder}")
    table.add_column("what")
    table.add_column("result", justify="right")
    for what, result in _rows(report):
        table.add_row(what, result)
    display.console.print(table)
    simulation = report.simulation
    if simulation is not None and not simulation.bit_exact:
        if simulation.first_mismatch is not None:
            display.console.print(f"first mismatch: {simulation.first_mismatch}", markup=False)
        for violation in simulation.violations:
            display.console.print(f"stream rule broken: {violation}", markup=False)
    if report.synthesis is not None:
        display.console.print(report.synthesis.table())


def _rows(report: Report) -> list[tuple[str, str]]:
    design, simulation = report.project.design, report.simulation
    rows = []
    if simulation is not None:
        rows += [
            ("bit-exact", "yes" if simulation.bit_exact else "NO"),
            ("elements compared", f"{simulation.elements:,}"),
            ("elements that differ", f"{simulation.mismatches:,}"),
            ("inferences simulated", f"{simulation.inferences:,} ({simulation.engine})"),
        ]
    if report.accuracy is not None:
        accuracy = report.accuracy
        rows += [
            (f"accuracy, float ({accuracy.samples} test samples)", f"{accuracy.float_model:.4f}"),
            ("accuracy, quantized", f"{accuracy.quantized:.4f}"),
        ]
        if accuracy.rtl is not None:
            rows.append(("accuracy, measured on the RTL", f"{accuracy.rtl:.4f}"))
    measured = simulation is not None and simulation.stall == 0
    rows += [
        ("multipliers", f"{sum(node.multipliers for node in design.nodes):,}"),
        ("latency, predicted (cycles)", f"{design.latency_cycles:,}"),
    ]
    if measured and simulation is not None:
        rows.append(("latency, simulated (cycles)", _cycles(simulation.latency_cycles)))
    rows.append(("interval, predicted (cycles)", f"{design.interval_cycles:,}"))
    if measured and simulation is not None:
        rows.append(("interval, simulated (cycles)", _cycles(simulation.interval_cycles)))
    if report.synthesis is not None:
        total = report.synthesis.total
        rows.append(
            (
                f"LUT / FF / DSP / BRAM ({report.synthesis.target})",
                f"{total.lut:,} / {total.ff:,} / {total.dsp} / {total.bram:g}",
            )
        )
    return rows


def _cycles(value: float | None) -> str:
    return "-" if value is None else f"{value:,.6g}" if value % 1 else f"{int(value):,}"
