"""Transformers in hardware: cycles, multipliers, buffers, errors, and what passes."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from mase_hw.errors import ConfigError, MaseError
from mase_hw.registry import nearest
from tests.bench.architectures import ARCHITECTURES, model_and_inputs
from tests.bench.base import Benchmark, Row, timed
from tests.bench.transformer_errors import errors
from tests.bench.transformer_models import SUBJECTS, Subject, deit_tiny, published_lanes

if TYPE_CHECKING:
    from torch import Tensor, nn

    from mase_hw.cells import Port
    from mase_hw.emit.design import Design
    from mase_hw.emit.project import Project
    from mase_hw.graph import MaseGraph
    from mase_hw.sim.simulate import SimulationReport

QUICK = ("gpt2-2", "llama-2")
SAMPLES = 4
RATIO_BAR, BUSY_BAR, BUFFER_BAR = 1.02, 0.95, 1.1
ARCHITECTURES_BAR = 36
EMISSION_BAR = 5
DEPTHS_BAR = 1
SYNTHESISED = ("gpt2-2", "llama-2", "llama-step")
DEIT_BLOCKS, DEIT_LATENCY_BAR, DEIT_INTERVAL_BAR = 12, 680_000, 51_200
ARCHITECTURE_SAMPLES, STALL = 2, 0.3
# Trained classifiers: the budget of multipliers, and test samples that are simulated.
CLASSIFIERS = {"vit-mnist": (256, 500), "bert-tiny": (512, 200)}
ACCURACY_BAR = 0.002
SOFTMAX_LANES = 4
SOFTMAX_CONFIG = {"name": "fixed", "data_in_width": 8, "data_out_frac_width": 9}


class Transformers(Benchmark):
    """Models of transformers, simulated; errors of softmax and norms; architectures."""

    name: ClassVar[str] = "transformers"
    title: ClassVar[str] = "Transformers in hardware"
    default: ClassVar[bool] = False

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = tuple(names)

    def only(self, names: Sequence[str]) -> Transformers:
        """Return the benchmark with the figures of these names alone."""
        trained = [f"{name}-accuracy" for name in CLASSIFIERS]
        groups = ("errors", "area", "resources", "architectures", "deit-tiny-latency")
        known = (*SUBJECTS, *trained, *groups, *ARCHITECTURES)
        for name in names:
            if name not in known:
                raise ConfigError(f"transformers: no figure {name!r}; {nearest(name, known)}")
        return Transformers(names)

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures."""
        import torch

        torch.set_num_threads(1)
        parts: dict[str, Callable[[], Iterator[Row]]] = {
            "errors": errors,
            "area": area,
            "resources": resources,
            "architectures": architectures,
            "deit-tiny-latency": deit_latency,
        }
        parts |= {name: partial(cycles, name, item) for name, item in SUBJECTS.items()}
        parts |= {f"{name}-accuracy": partial(accuracy, name) for name in CLASSIFIERS}
        chosen = self._names or (("errors", *QUICK) if quick else tuple(parts))
        for name in chosen:
            yield from parts[name]() if name in parts else architectures([name])


def area() -> Iterator[Row]:
    """Synthesise a softmax of 8 bits; so small are its results that a step is taken."""
    import torch
    from torch import nn

    import mase_hw
    from mase_hw.hardware.synth import synthesize

    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
        torch.manual_seed(0)
        config = {"by": "type", "softmax": {"config": SOFTMAX_CONFIG}}
        mg = mase_hw.quantize(mase_hw.trace(nn.Softmax(-1), torch.randn(8, 64)), config)
        project = mase_hw.emit_verilog(mg, output=folder, parallelism=SOFTMAX_LANES)
        total = synthesize(project.folder, "xcup").total
    lut, dsp = total.lut / SOFTMAX_LANES, total.dsp / SOFTMAX_LANES
    yield Row(
        f"softmax, 8 bit, {SOFTMAX_LANES} lanes, rows of 64: LUT and DSP of a lane, Yosys xcup",
        f"{lut:.0f} LUT, {dsp:g} DSP",
        "<= 400 LUT, 1 DSP",
        lut <= 400 and dsp <= 1,
    )


def _pace(name: str, mg: MaseGraph, design: Design, report: SimulationReport) -> Iterator[Row]:
    """Compare cycles with their prediction and the slowest node; count busy multipliers."""
    for what, predicted, found in (
        ("interval", report.predicted_interval_cycles, report.interval_cycles),
        ("latency", report.predicted_latency_cycles, report.latency_cycles),
    ):
        yield Row(
            f"{name}: {what} predicted / simulated",
            f"{predicted:,} / {found or 0:,g}",
            "equal",
            predicted == found,
        )
    slowest = max(node.work_cycles for node in design.nodes)
    ratio = (report.interval_cycles or 0) / slowest
    yield Row(
        f"{name}: simulated interval / work of the slowest node",
        f"{ratio:.3f}",
        f"<= {RATIO_BAR}",
        ratio <= RATIO_BAR,
    )
    busy = list(_busy(mg, design, slowest))
    yield Row(
        f"{name}: multipliers busy in the slowest layers",
        f"{statistics.mean(busy):.1%} of {sum(node.multipliers for node in design.nodes)} in all",
        f">= {BUSY_BAR:.0%}",
        statistics.mean(busy) >= BUSY_BAR,
    )


def cycles(name: str, subject: Subject) -> Iterator[Row]:
    """Emit and simulate a model without pauses."""
    import mase_hw

    module, inputs = subject.prepare()
    steps = list(zip(*inputs, strict=True)) if subject.keeps_state else None
    _import_all()
    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
        with timed() as emission:
            mg, project = _emitted(name, subject, module, inputs, folder)
        seconds, limited = emission.cpu, name == "bert-tiny"
        yield Row(
            f"{name}: trace, passes and emission, after import, processor time",
            f"{seconds:.1f} s ({emission.wall:.1f} s on the clock)",
            f"<= {EMISSION_BAR} s" if limited else "",
            seconds <= EMISSION_BAR if limited else None,
        )
        if limited:
            yield _queues(name, subject, mg)
        with timed() as whole:
            if steps:
                report = mase_hw.simulate(project.folder, inputs)
            else:
                report = mase_hw.simulate(project.folder, samples=SAMPLES)
    design = project.design
    over = f" over a sequence of {len(steps)} steps" if steps else ""
    yield Row(
        f"{name}: elements that differ{over}",
        f"{report.mismatches} of {report.elements}",
        "0",
        report.bit_exact,
    )
    yield from _pace(name, mg, design, report)
    if subject.tokens:
        yield _buffers(name, subject, design)
    rate = report.cycles_per_second
    yield Row(f"{name}: build and simulation", f"{whole.cpu:.0f} CPU s, {rate:,.0f} cycles/s")


def _emitted(
    name: str, subject: Subject, module: nn.Module, inputs: Sequence[Tensor], folder: str
) -> tuple[MaseGraph, Project]:
    import mase_hw

    steps = list(zip(*inputs, strict=True)) if subject.keeps_state else None
    traced = mase_hw.trace(module, steps[0] if steps else inputs, name=name.replace("-", "_"))
    mg = mase_hw.quantize(traced, subject.config, data=steps, reuse=subject.reuse)
    project = mase_hw.emit_verilog(
        mg,
        output=folder,
        parallelism=subject.parallelism or "auto",
        multipliers=subject.multipliers,
    )
    return mg, project


def _import_all() -> None:
    """Import what capture and emission import when they first need it."""
    import torch
    from torch import nn

    import mase_hw

    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
        mg = mase_hw.quantize(mase_hw.trace(nn.Linear(2, 2), torch.randn(2, 2)))
        mase_hw.emit_verilog(mg, output=folder)


def _busy(mg: MaseGraph, design: Design, slowest: int) -> Iterator[float]:
    """Yield, of each node that bounds the interval, how many of its multipliers work."""
    from mase_hw.graph.loops import loops_of

    found = _operations(mg)
    shared = {node.name: loop.count for loop in loops_of(mg) for node in loop.first}
    for node in design.nodes:
        if node.work_cycles == slowest and node.multipliers and node.node in found:
            products = found[node.node] / 2 * shared.get(node.node, 1)
            yield products / (node.multipliers * slowest)


def _operations(mg: MaseGraph) -> dict[str, int]:
    """Return the arithmetic operations of every node that computes, in one layer of several."""
    return {
        node.name: call.operator.operations(call)
        for node in mg.nodes
        if node.op == "call_function" and (call := mg.call(node))
    }


def _buffers(name: str, subject: Subject, design: Design) -> Row:
    """Compare what keys, values and queues hold with keys and values twice and the residual."""
    from mase_hw.cells.reorder import Reorder
    from mase_hw.cells.stream_fifo import StreamFifo
    from mase_hw.cells.stream_replay import StreamReplay

    codes = 0
    for instance in design.instances:
        cell = instance.cell
        if isinstance(cell, StreamFifo):
            codes += cell.depth * _lanes(cell.port)
        elif instance.name.endswith("_columns_inst") and isinstance(cell, Reorder):
            codes += 2 * cell.reordering.beats_in.numel()
        elif instance.name.endswith("_columns_inst") and isinstance(cell, StreamReplay):
            codes += 2 * cell.block * _lanes(cell.port)
    kept = subject.layers * 5 * subject.tokens * subject.width
    return Row(
        f"{name}: codes of keys, values and queues / 4 T C of attention and T C of residuals",
        f"{codes:,} / {kept:,} = {codes / kept:.3f}",
        f"<= {BUFFER_BAR}",
        codes <= BUFFER_BAR * kept,
    )


def _queues(name: str, subject: Subject, mg: MaseGraph) -> Row:
    """Measure what it takes to find the depths of all queues."""
    from mase_hw.emit.flow import lowered
    from mase_hw.passes.hardware.broadcast import insert_broadcasts_transform_pass
    from mase_hw.passes.hardware.fifo import insert_fifos_transform_pass
    from mase_hw.passes.hardware.orders import assign_orders_transform_pass
    from mase_hw.passes.hardware.parallelism import assign_parallelism_transform_pass

    mg, _ = assign_orders_transform_pass(lowered(mg))
    mg, _ = insert_broadcasts_transform_pass(mg)
    asked = {"parallelism": "auto", "multipliers": subject.multipliers}
    mg, _ = assign_parallelism_transform_pass(mg, asked)
    with timed() as depths:
        _, info = insert_fifos_transform_pass(mg)
    return Row(
        f"{name}: depths of {len(info['fifos'])} queues, processor time",
        f"{depths.cpu:.2f} s",
        f"<= {DEPTHS_BAR} s",
        depths.cpu <= DEPTHS_BAR,
    )


def resources() -> Iterator[Row]:
    """Synthesise the models whose synthesis takes minutes."""
    from mase_hw.hardware.synth import synthesize

    for name in SYNTHESISED:
        subject = SUBJECTS[name]
        module, inputs = subject.prepare()
        with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
            _, project = _emitted(name, subject, module, inputs, folder)
            with timed() as elapsed:
                total = synthesize(project.folder, "xcup").total
        yield Row(
            f"{name}: LUT, FF, DSP, BRAM, Yosys xcup",
            f"{total.lut:,}, {total.ff:,}, {total.dsp}, {total.bram:g} ({elapsed.cpu:.0f} CPU s)",
        )


def _lanes(port: Port) -> int:
    return sum(item.lanes for item in port.fields)


def deit_latency() -> Iterator[Row]:
    """Predict the latency of all blocks of DeiT-tiny."""
    import mase_hw
    from mase_hw.emit.flow import to_hardware
    from mase_hw.timing.prediction import predict

    module, inputs = deit_tiny(DEIT_BLOCKS)()
    mg = mase_hw.quantize(mase_hw.trace(module, inputs))
    found = predict(to_hardware(mg, parallelism=published_lanes(DEIT_BLOCKS)))
    for what, cycles, bar in (
        ("latency", found.latency_cycles, DEIT_LATENCY_BAR),
        ("interval", found.interval_cycles, DEIT_INTERVAL_BAR),
    ):
        yield Row(
            f"deit-tiny, {DEIT_BLOCKS} blocks of the published multipliers: {what} predicted",
            f"{cycles:,} cycles",
            f"<= {bar:,}",
            cycles <= bar,
        )


def _on_rtl(
    name: str, report: SimulationReport, classes: Tensor, output: str, multipliers: int
) -> Iterator[Row]:
    """Compare the classes and the cycles of a simulation with the integers' and the predicted."""
    simulated = report.outputs[output].reshape(report.inferences, -1).argmax(1)
    differing = int((simulated != classes[: report.inferences]).sum())
    yield Row(
        f"{name}: classes on RTL other than the integers', {report.inferences:,} test samples",
        f"{differing}; {report.mismatches} of {report.elements:,} elements",
        "0",
        differing == 0 and report.bit_exact,
    )
    cycles = (
        f"{report.predicted_interval_cycles:,} / {report.interval_cycles or 0:,g}; "
        f"{report.predicted_latency_cycles:,} / {report.latency_cycles or 0:,}"
    )
    yield Row(
        f"{name}: interval and latency, predicted / simulated, {multipliers} multipliers",
        cycles,
        "equal",
        report.predicted_interval_cycles == report.interval_cycles
        and report.predicted_latency_cycles == report.latency_cycles,
    )


def accuracy(name: str) -> Iterator[Row]:
    """Classify the test set in float, quantized and as integers, and a part of it on the RTL.

    The quantized network rounds where the hardware does, and computes softmax, layer_norm and gelu
    in float.
    """
    import torch

    import mase_hw
    from mase_hw.emit.project import load_reference
    from mase_hw.models import models
    from mase_hw.sim.inputs import encode_inputs

    trained, (multipliers, samples) = models()[name].load(), CLASSIFIERS[name]
    inputs, labels = trained.split.test_inputs, trained.split.test_labels
    graph = mase_hw.trace(trained.module, trained.example_inputs, name=name.replace("-", "_"))
    mg = mase_hw.quantize(graph)
    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
        project = mase_hw.emit_verilog(
            mg, output=folder, parallelism="auto", multipliers=multipliers
        )
        design, reference = project.design, load_reference(project.folder)
        (output,) = design.outputs
        codes = reference(encode_inputs(design.inputs, inputs))[output.node]
        report = mase_hw.simulate(project.folder, inputs[:samples])
    with torch.no_grad():
        scores = {
            "float": torch.cat([trained.module(part) for part in torch.split(inputs, 100)]),
            "8 bit, float functions": torch.cat([mg(part) for part in torch.split(inputs, 100)]),
            "integers": codes,
        }
    classes = {key: value.reshape(len(labels), -1).argmax(1) for key, value in scores.items()}
    right = {key: int((value == labels).sum()) for key, value in classes.items()}
    gap = abs(right["integers"] - right["8 bit, float functions"]) / len(labels)
    yield Row(
        f"{name}: accuracy {' / '.join(right)}, {len(labels):,} test samples",
        " / ".join(f"{count / len(labels):.2%}" for count in right.values()),
        f"within {ACCURACY_BAR:.1%} of float functions",
        gap <= ACCURACY_BAR,
    )
    yield from _on_rtl(name, report, classes["integers"], output.name, multipliers)


def architectures(names: Sequence[str] = ()) -> Iterator[Row]:
    """Emit tiny configurations of architectures, and simulate each under pauses and without.

    Args:
        names: of those; all when not given.
    """
    found = {}
    for name in names or ARCHITECTURES:
        try:
            found[name] = _architecture(name)
        except MaseError as error:
            found[name] = Row(name, str(error), "exact, or refused by preflight", met=False)
        yield found[name]
    if names:
        return
    exact = sum(row.met is True for row in found.values())
    refused = [name for name, row in found.items() if row.met is None]
    yield Row(
        f"architectures of transformers, tiny: exact of {len(found)}, {len(refused)} refused",
        f"{exact}; refused: {', '.join(refused) or 'none'}",
        f">= {ARCHITECTURES_BAR}",
        exact >= ARCHITECTURES_BAR and exact + len(refused) == len(found),
    )


def _architecture(name: str) -> Row:
    """Return what becomes of an architecture; one without hardware is neither met nor missed."""
    import mase_hw
    from mase_hw.emit.preflight import preflight

    module, inputs = model_and_inputs(name)
    mg = mase_hw.quantize(mase_hw.trace(module, inputs))
    if problems := preflight(mg):
        causes = list(dict.fromkeys(problem.reason for problem in problems))
        more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
        return Row(name, f"refused: {causes[0]}{more}")
    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
        project = mase_hw.emit_verilog(mg, output=folder)
        paused = mase_hw.simulate(project.folder, samples=ARCHITECTURE_SAMPLES, stall=STALL)
        report = mase_hw.simulate(project.folder, samples=ARCHITECTURE_SAMPLES)
    predicted = report.predicted_interval_cycles, report.predicted_latency_cycles
    cycles = report.interval_cycles, report.latency_cycles
    wrong = report.mismatches + paused.mismatches
    return Row(
        f"{name}: elements that differ; interval and latency, predicted / simulated",
        f"{wrong} of {report.elements + paused.elements:,}; "
        f"{predicted[0]:,} / {cycles[0] or 0:,g}; {predicted[1]:,} / {cycles[1] or 0:,g}",
        "0, equal",
        report.bit_exact and paused.bit_exact and predicted == cycles,
    )
