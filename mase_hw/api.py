"""The verbs of a script: quantize, emit, simulate, synthesize."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn

from mase_hw._kinds import Setting, Table
from mase_hw._results import check_result, claimed
from mase_hw.deploy.board import Board, fitting, load_board, make_bitstream
from mase_hw.deploy.bus import BusOptions
from mase_hw.deploy.deployment import Deployment
from mase_hw.emit.flow import measured, quantize, to_hardware, with_loops
from mase_hw.emit.preflight import batch_notes, idle_notes
from mase_hw.emit.project import Project, check_folder, write_project
from mase_hw.emit.reload import with_headroom
from mase_hw.emit.warnings import check_sqnr, warnings
from mase_hw.errors import DataError, DoesNotFitError, EmissionError, ParallelismError
from mase_hw.exporters.comparison import Comparison as CodesComparison
from mase_hw.exporters.comparison import compare as compare_codes
from mase_hw.graph import MaseGraph, check_finite, trace
from mase_hw.graph.agreement import CHANNEL, check_agreement
from mase_hw.graph.source import naming_units
from mase_hw.hardware.route import RouteReport
from mase_hw.hardware.route import route as route_folder
from mase_hw.hardware.synth import SynthesisReport
from mase_hw.hardware.synth import synthesize as synthesize_folder
from mase_hw.passes.compression.prune import prune_transform_pass
from mase_hw.passes.compression.prune_structure import prune_structure_transform_pass
from mase_hw.passes.configuration import says_nothing
from mase_hw.passes.hardware.options import Hardware
from mase_hw.pipelines.compression import CompressionPipeline, CompressionResult
from mase_hw.sim.cocotb_engine import write_testbench
from mase_hw.sim.compare import Comparison
from mase_hw.sim.compare import compare as compare_folder
from mase_hw.sim.simulate import SimulationReport
from mase_hw.sim.simulate import simulate as simulate_folder

_logger = logging.getLogger(__name__)

__all__ = [
    "compare",
    "compress",
    "emit_verilog",
    "prune",
    "quantize",
    "route",
    "simulate",
    "synthesize",
]


def compress(mg: MaseGraph, config: Table, split: Any, **options: Setting) -> CompressionResult:
    """Quantize, prune and fine-tune a graph in the order that `config` declares.

    Args:
        mg: a captured graph.
        config: `steps`, `seed`, `task`, `parallelism`, see `CompressionPipeline`.
        split: a `Split`, arrays, data sets or loaders, see `mase_hw.data.Split.read`.
        options: `output`, the folder of the results, and `progress`.
    """
    return CompressionPipeline.from_config(config)(mg, split, **options)


@naming_units()
def emit_verilog(
    model: nn.Module | MaseGraph | str | os.PathLike[str],
    example_inputs: Any = None,
    *,
    output: str | Path,
    config: Table | None = None,
    data: Any = None,
    name: str | None = None,
    reuse: bool = False,
    min_sqnr: float | None = None,
    agreement: str = CHANNEL,
    deployment: Deployment | str | None = None,
    reload: Sequence[str] = (),
    parameters: bool = False,
    reload_headroom: int = 0,
    **options: Setting,
) -> Project:
    """Write a SystemVerilog project for a model.

    Args:
        model: a module, the path of an ONNX file, or a graph; a graph that is not quantised is
            quantised first.
        example_inputs: tensors that the module takes, with a batch dimension where it has one.
        output: folder to write; absent, empty, or an earlier project, which is replaced.
        config: number formats, see `mase_hw.passes.formats.quantize`; else 8-bit fixed point.
        data: batches of inputs that show the ranges of values, for fractions left open.
        name: the design's name.
        reuse: run layers that are alike on the hardware of one, with the weights of each in turn. A
            quantised graph is used as it is: give `quantize` the same.
        min_sqnr: the least agreement with the float model, in decibels, that every output must have
            on `data`, or on the example inputs.
        agreement: whose decibels these are: `channel`, the worst channel's about its mean, or
            `tensor`, the whole tensor's of raw power, see `mase_hw.graph.agreement`.
        deployment: what else is written, see `mase_hw.deploy.deployment.Deployment`; or the word
            for bus ports round the top, such as `axi-stream`.
        reload: layers whose weights can be loaded at run time, or `["*"]` for all.
        parameters: give the top parameters such as `fc1_DATA_IN_0_PRECISION_0`, with the values
            that the design was made for; elaboration refuses others.
        reload_headroom: bits of range that their weights have beyond those of the model, for
            others that are larger; the hardware has room for any of them.
        options: parallelism, multipliers, memory, queues and device, see
            `mase_hw.passes.hardware.options.Hardware`.

    Returns:
        The project: its folder, design and annotated graph.

    Raises:
        MaseError: naming everything that stands in the way, an output below `min_sqnr` too;
            nothing is written then.
    """
    hardware = Hardware(**options)
    check_folder(Path(output).absolute())
    check_agreement(agreement)
    with claimed(Path(output)):
        if isinstance(deployment, str):
            deployment = Deployment(BusOptions(deployment))
        if isinstance(model, MaseGraph):
            mg = model
        elif example_inputs is None and isinstance(model, nn.Module):
            raise EmissionError("a module needs example_inputs: the tensors that it takes")
        else:
            mg = trace(model, example_inputs, name=name)
        check_finite(mg)
        configured = mg.has_formats or not says_nothing(config)
        if not (mg.has_formats and says_nothing(config)):
            mg = quantize(mg, config, data=data, reuse=reuse)
        else:
            mg = measured(mg, data)
            mg = with_loops(mg) if reuse else mg
        if reload_headroom:
            mg = with_headroom(mg, reload, reload_headroom)
        check_sqnr(mg, min_sqnr, agreement)
        warned = warnings(mg, configured=configured)
        mg = to_hardware(mg, **vars(hardware))
        project = write_project(
            mg,
            Path(output),
            testbench=write_testbench,
            additions=[deployment] if deployment else [],
            reload=reload,
            warnings=warned,
            parameters=parameters,
        )
        for note in (*batch_notes(mg), *idle_notes(mg), *warned):
            _logger.warning("%s", note)
        return project


def build(
    model: nn.Module | MaseGraph,
    example_inputs: Any = None,
    *,
    board: Board | str,
    output: str | Path,
    parallelism: int | str | Table | None = None,
    seeds: int = 1,
    progress: Callable[[str], None] | None = None,
    **options: Setting,
) -> tuple[Project, RouteReport]:
    """Write a project for a board, and its bitstream beside it, `OUTPUT.bit`.

    Args:
        model: see `emit_verilog`.
        example_inputs: see `emit_verilog`.
        board: a board, its name, or the path of its file.
        output: folder to write.
        parallelism: see `emit_verilog`; if not given, the least that keeps up with the serial
            line, or else the fastest within the budget of the board.
        seeds: placements to try; the fastest is taken.
        progress: called with what goes on.
        options: see `emit_verilog`.

    Returns:
        The project, and what placing and routing gave.

    Raises:
        MaseError: for a design that does not fit the board or its clock.
    """
    chosen = load_board(board) if isinstance(board, str) else board
    within = {"default": "auto", **(chosen.budget or {})}
    around = Deployment(board=chosen)

    def emitted(folder: str | Path, asked: int | str | Table) -> Project:
        return emit_verilog(
            model, example_inputs, output=folder, parallelism=asked, deployment=around, **options
        )

    with claimed(Path(output)):
        folder = Path(output).absolute()
        bitstream = folder.with_name(f"{folder.name}.bit")
        check_result(bitstream)
        project = emitted(output, 1 if parallelism is None else parallelism)
        line = chosen.line_cycles(project.design)
        if parallelism is None and project.design.interval_cycles > line:
            try:
                project = emitted(output, {**within, "target_interval": line})
            except ParallelismError:
                project = emitted(output, within)
        try:
            report = make_bitstream(folder, chosen, bitstream, seeds=seeds, progress=progress)
        except DoesNotFitError as error:
            if parallelism is None:
                raise
            with TemporaryDirectory(prefix="mase_hw_fit_") as scratch:
                try:
                    told = fitting(chosen, emitted(Path(scratch) / folder.name, within).design)
                except ParallelismError as none:
                    told = f"no parallelism fits {chosen.title}: {none}"
            raise DoesNotFitError(f"{error}; without --parallelism: {told}") from error
        return project, report


def prune(mg: MaseGraph, *, structured: bool = False, **options: object) -> MaseGraph:
    """Return the graph with a share of its weights at zero, where training leaves them.

    Args:
        mg: a captured or quantised graph.
        structured: take whole channels, filters and heads out instead: modules become smaller.
        options: see `mase_hw.passes.compression.prune.prune_transform_pass`, or
            `mase_hw.passes.compression.prune_structure.prune_structure_transform_pass`.
    """
    chosen = prune_structure_transform_pass if structured else prune_transform_pass
    return chosen(mg, options)[0]


@naming_units()
def simulate(
    project: Project | str | Path, inputs: Any = None, **options: Setting
) -> SimulationReport:
    """Simulate a project and compare every output bit with the integer reference.

    Args:
        project: what `emit_verilog` returned, or its folder.
        inputs: real values, one tensor per model input, any number of inferences; random codes
            when not given.
        options: see `mase_hw.sim.simulate.simulate`.
    """
    return simulate_folder(_folder(project), inputs, **options)


@naming_units()
def compare(
    model: nn.Module | str | os.PathLike[str] | None,
    project: Project | str | Path,
    inputs: Any = None,
    **options: Setting,
) -> Comparison | CodesComparison:
    """Run every layer as the float model, as the integer reference, and in simulated hardware.

    Args:
        model: the module that was captured, which is run beside the graph; None to leave it out. Of
            the path of an ONNX file, ONNX Runtime's codes are compared with the reference instead.
        project: what `emit_verilog` returned, or its folder.
        inputs: real values, one tensor per model input; the example inputs when not given.
        options: see `mase_hw.sim.compare.compare`.
    """
    if isinstance(model, str | os.PathLike):
        if inputs is None:
            raise DataError("the comparison with an ONNX file needs inputs: give some")
        return compare_codes(model, project, inputs)
    return compare_folder(model, _folder(project), inputs, **options)


def synthesize(project: Project | str | Path, target: str = "xcup") -> SynthesisReport:
    """Synthesize a project with Yosys for `xcup`, `ecp5` or another family."""
    return synthesize_folder(_folder(project), target)


def route(project: Project | str | Path, target: str = "ecp5", **options: Setting) -> RouteReport:
    """Synthesize, place and route a project.

    Args:
        project: what `emit_verilog` returned, or its folder.
        target: a family that nextpnr knows.
        options: see `mase_hw.hardware.route.route`.
    """
    return route_folder(_folder(project), target, **options)


def _folder(project: Project | str | Path) -> Path:
    return project.folder if isinstance(project, Project) else Path(project)
