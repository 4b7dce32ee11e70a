"""Writing a hardware project: SystemVerilog, memory images, testbench and the graph itself."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._cache import TAKEN, abandoned, alone_in
from mase_hw._collection import known_objects_kept
from mase_hw._results import check_above, claimed, is_input
from mase_hw._stages import stage
from mase_hw.emit.build import build_design
from mase_hw.emit.design import Design, DesignSummary, Stream
from mase_hw.emit.manifest import Manifest, keep_foreign
from mase_hw.emit.modules import check_instances, module_texts
from mase_hw.emit.names import check_names
from mase_hw.emit.preflight import Note
from mase_hw.emit.reload import reloadable_design
from mase_hw.emit.render import render_top
from mase_hw.errors import CacheError, EmissionError
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.reference import IntegerReference, output_nodes, spec

logger = logging.getLogger(__name__)

GRAPH_FILE = "model.mase"
DESIGN_FILE = "design.json"
TESTBENCH_INFERENCES = 8

TestbenchWriter = Callable[[Path, DesignSummary, Mapping[str, Tensor], Mapping[str, Tensor]], None]
Addition = Callable[[Path, DesignSummary], None]


@dataclass(frozen=True)
class Project:
    """An emitted project.

    Attributes:
        folder: where it lies.
        design: what was rendered.
        mg: the annotated graph.
        warnings: what it does not keep of the float model.
    """

    folder: Path
    design: Design
    mg: MaseGraph
    warnings: tuple[Note, ...] = ()


@known_objects_kept()
def write_project(
    mg: MaseGraph,
    folder: Path,
    *,
    testbench: TestbenchWriter | None = None,
    additions: Sequence[Addition] = (),
    reload: Sequence[str] = (),
    warnings: Sequence[Note] = (),
    parameters: bool = False,
) -> Project:
    """Write the project of an annotated graph, or nothing.

    The files are written to a temporary folder beside `folder`, which then takes its place. The
    same graph gives the same bytes.

    Args:
        mg: a graph that went through the hardware metadata pass.
        folder: must not exist, be empty, or be a project of ours, which is replaced; files that
            others put there stay.
        testbench: writes the testbench of a project.
        additions: write what else belongs to it, such as bus ports, one after the other.
        reload: layers whose constants can be loaded at run time, or `*`.
        warnings: what the project has to say of itself.
        parameters: give the top parameters that restate formats, shapes and parallelism.

    Raises:
        EmissionError: when `folder` is something else, or a file of ours in it has been changed.
        OutputError: when another run is writing to it.
    """
    given, folder = folder.absolute(), _target(folder)
    if folder.parent.is_dir():
        with alone_in(folder.parent):
            _recover(folder)
    check_folder(folder)
    stage("cycles")
    design = reloadable_design(mg, reload) if reload else build_design(mg)
    if parameters:
        design = replace(design, tensor_parameters=tensor_parameters(mg, design))
        check_names(design)
    stage("files")
    check_instances(design)
    try:
        with claimed(folder) as scratch:
            work = scratch / "new"
            work.mkdir()
            _write(mg, design, work)
            if testbench is not None:
                _write_testbench(mg, work, testbench)
            for add in additions:
                add(work, DesignSummary.load(work))
            Manifest.of(work).write(work)
            with alone_in(folder.parent):
                _check_writable(folder)
                _replace(folder, work, scratch)
    except CacheError as error:
        raise EmissionError(f"{given} cannot be written: {error.__cause__ or error}") from error
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        reason = f"{error.strerror or error}{where}"
        raise EmissionError(f"{given} cannot be written: {reason}") from error
    return Project(given, design, mg, tuple(warnings))


def _target(folder: Path) -> Path:
    """Return the folder that links lead to: they stay."""
    try:
        return folder.resolve()
    except (OSError, RuntimeError) as error:
        raise EmissionError(f"{folder} cannot be made: its links lead nowhere") from error


def _recover(folder: Path) -> None:
    """Put a project back that a killed process had taken away.

    Where another one has its place, that one gets what others had put into it.
    """
    for left, purpose in abandoned(folder.parent):
        taken = left / TAKEN
        if purpose != folder.name or not taken.is_dir():
            continue
        try:
            if not folder.exists() or _is_empty(folder):
                taken.rename(folder)
            elif Manifest.load(folder) is not None:
                _give_up(taken, folder)
        except (OSError, EmissionError) as error:
            logger.warning("%s is what a killed emission left, and stays: %s", left, error)


def _replace(folder: Path, new: Path, scratch: Path) -> None:
    """Put `new` in the place of `folder`, which stays if that fails."""
    if not folder.exists():
        new.rename(folder)
        return
    keep_foreign(folder, new)
    taken = scratch / TAKEN
    folder.rename(taken)
    try:
        new.rename(folder)
    except BaseException:
        taken.rename(folder)
        raise
    _give_up(taken, folder)


def _give_up(taken: Path, folder: Path) -> None:
    """Leave a project that was taken away to be deleted, once `folder` has what others put in."""
    keep_foreign(taken, folder)
    taken.rename(taken.with_name("replaced"))


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def check_folder(folder: Path) -> None:
    """Raise unless `folder` may be written: absent, empty, or a project as we wrote it.

    An emission that puts another project there meanwhile is waited for.
    """
    try:
        target = _target(folder)
        readable = target.parent.is_dir() and os.access(target.parent, os.R_OK)
        with alone_in(target.parent) if readable else nullcontext():
            _check_writable(target)
    except OSError as error:
        shown = str(folder) if len(str(folder)) <= 100 else f"{str(folder)[:100]}..."
        raise EmissionError(f"{shown} cannot be made: {error.strerror}") from error


def _check_writable(folder: Path) -> None:
    check_above(folder)
    if folder.is_dir():
        check_above(folder / DESIGN_FILE)
    if not folder.exists() or _is_empty(folder):
        return
    if not folder.is_dir():
        raise EmissionError(f"{folder} is a file; give the name of a folder")
    manifest = Manifest.load(folder)
    if manifest is None:
        raise EmissionError(
            f"{folder} exists and is not a mase-hw project of this release, so it is left alone; "
            "give another folder, or remove it"
        )
    read = [name for name in manifest.files if is_input(folder / name)]
    if read:
        raise EmissionError(
            f"{folder / read[0]} is read by this command too, so its project is left alone; give "
            "another folder"
        )
    changed = manifest.changed(folder)
    if changed:
        others = f" and {len(changed) - 1} others" if len(changed) > 1 else ""
        raise EmissionError(
            f"{folder / changed[0]}{others} changed since emission, so the project is left alone; "
            "move what you changed away, or give another folder"
        )


def load_graph(folder: Path) -> tuple[MaseGraph, DesignSummary]:
    """Return the graph that a project was emitted from, and the summary of its design.

    Raises:
        EmissionError: where one is missing or damaged, or they are not of the same design.
    """
    path = folder / GRAPH_FILE
    if not path.is_file():
        raise EmissionError(f"{folder} is not a mase-hw project: {GRAPH_FILE} is missing")
    mg, summary = MaseGraph.load(path), DesignSummary.load(folder)
    nodes = {node.name: node for node in mg.nodes if node.op != "output"}
    wrong = ""
    if mg.name != summary.name:
        wrong = f"it is {mg.name}, not {summary.name}"
    elif len(mg.inputs) != len(summary.inputs):
        wrong = f"it has {len(mg.inputs)} inputs, not {len(summary.inputs)}"
    for stream in (*summary.inputs, *summary.streams, *summary.outputs):
        wrong = wrong or _difference(nodes.get(stream.node), stream)
    if wrong:
        raise EmissionError(
            f"{path} is the graph of another design than {DESIGN_FILE} ({wrong}); "
            "emit the project again"
        )
    return mg, summary


def _difference(node: Node | None, stream: Stream) -> str:
    """Return in what a stream of a design is not the result of its node; empty for nothing."""
    if node is None:
        return f"it has no {stream.node}"
    for item in fields(stream.spec):
        told, found = (getattr(of, item.name) for of in (stream.spec, spec(node)))
        if told != found:
            return f"the {item.name} of {node.name} is {found}, not {told}"
    return ""


def load_reference(folder: Path) -> IntegerReference:
    """Return the integer reference of the graph that a project was emitted from."""
    return IntegerReference(load_graph(folder)[0])


def _write(mg: MaseGraph, design: Design, folder: Path) -> None:
    (folder / "top.sv").write_text(render_top(design))
    (folder / DESIGN_FILE).write_text(design.to_json())
    for name in ("rtl", "mem"):
        (folder / name).mkdir()
    modules = module_texts(item.cell for item in design.instances)
    for name, text in modules.items():
        (folder / "rtl" / f"{name}.sv").write_text(text)
    for memory in design.memories:
        (folder / memory.file).write_text(memory.render())
    if design.external is not None:
        (folder / design.external.file).write_bytes(design.image)
    names = [*(f"rtl/{name}.sv" for name in modules), "top.sv"]
    (folder / "files.f").write_text("".join(f"{name}\n" for name in names))
    mg.save(folder / GRAPH_FILE)


def _write_testbench(mg: MaseGraph, folder: Path, testbench: TestbenchWriter) -> None:
    summary = DesignSummary.load(folder)
    generator = torch.Generator().manual_seed(0)
    inputs = {
        stream.name: stream.spec.quantized.random_codes(
            stream.rows(TESTBENCH_INFERENCES), generator
        ).reshape(TESTBENCH_INFERENCES, *stream.spec.shape)
        for stream in summary.inputs
    }
    codes = IntegerReference(mg, kept=False)(list(inputs.values()))
    expected = {stream.name: codes[stream.node] for stream in summary.outputs}
    testbench(folder, summary, inputs, expected)


def tensor_parameters(mg: MaseGraph, design: Design) -> dict[str, int]:
    """Parameters of every port, operand and result of a graph in hardware, and their values.

    A port's have its name, `DATA_IN_0_PRECISION_0`; those of a node begin with its own,
    `fc1_WEIGHT_TENSOR_SIZE_DIM_0`.

    Args:
        mg: a graph that went through the hardware metadata pass.
        design: its design, whose memories say how constants stream.

    Returns:
        For each tensor `PRECISION_0` (width in bits) and `PRECISION_1` (fraction bits) where its
        format has them, `TENSOR_SIZE_DIM_k` and `PARALLELISM_DIM_k` in elements; `DIM_0` is the
        last dimension.
    """
    values = dict[str, int]()
    for word, nodes in (("DATA_IN", mg.inputs), ("DATA_OUT", output_nodes(mg))):
        for place, node in enumerate(nodes):
            values |= _of_tensor(f"{word}_{place}", spec(node))
    constants = {(item.node, item.operand): item.source.spec for item in design.constants}
    for node in mg.nodes:
        if node.op != "call_function":
            continue
        call = mg.call(node)
        for operand, tensor in {**call.operands, **call.results}.items():
            streamed = constants.get((node.name, operand)) or tensor
            tensor = replace(tensor, parallelism=streamed.parallelism)
            values |= _of_tensor(f"{node.name}_{operand.upper()}", tensor)
    return values


def _of_tensor(name: str, tensor: TensorSpec) -> Mapping[str, int]:
    fields = tensor.quantized.to_dict()
    widths = {"PRECISION_0": fields.get("width"), "PRECISION_1": fields.get("frac_width")}
    sizes = {f"TENSOR_SIZE_DIM_{k}": size for k, size in enumerate(reversed(tensor.shape))}
    lanes = {f"PARALLELISM_DIM_{k}": size for k, size in enumerate(reversed(tensor.parallelism))}
    values = {**widths, **sizes, **lanes}
    return {f"{name}_{key}": value for key, value in values.items() if isinstance(value, int)}
