"""`compare`: the integers of a graph beside another computation of the same tensors, by layer."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from rich.table import Table
from torch import Tensor

from mase_hw.emit.flow import lowered
from mase_hw.emit.project import Project, load_graph
from mase_hw.errors import ConfigError, DataError, ToolError
from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, metadata
from mase_hw.graph.reference import IntegerReference

# What rounds, and what then gives reals.
_ROUNDING = (("QuantizeLinear", "Quant", "IntQuant", "Trunc"), ("DequantizeLinear",))

if TYPE_CHECKING:
    from onnx import ModelProto

# What gives tensors by the name of the layer that makes them.
Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Agreed:
    """One layer of a comparison.

    Attributes:
        layer: name of the node.
        source: where it comes from.
        elements: that were compared.
        differing: codes that differ.
        first: those of them in inferences in which all layers before agree; the others may follow
            from a difference before.
        largest: the largest difference, in steps of the layer's format.
    """

    layer: str
    source: str
    elements: int
    differing: int
    first: int
    largest: float


@dataclass(frozen=True)
class Comparison:
    """The layers of a comparison, in order."""

    layers: tuple[Agreed, ...]

    @property
    def worst(self) -> float:
        """The largest share of codes that differ."""
        return max((item.differing / item.elements for item in self.layers), default=0.0)

    def __rich__(self) -> Table:
        table = Table("layer", "source", "elements", "codes that differ", "first here", "largest")
        for item in self.layers:
            counts = (str(count) for count in (item.elements, item.differing, item.first))
            table.add_row(item.layer, item.source, *counts, f"{item.largest:g}")
        return table


def compare(
    model: str | os.PathLike[str] | Callable[..., Tensors],
    project: Project | MaseGraph | str | os.PathLike[str],
    inputs: Any,
) -> Comparison:
    """Compare a graph's integers with what ONNX Runtime computes of its file, layer by layer.

    Args:
        model: the ONNX file that the graph was traced from; or a function that takes the inputs
            and returns reals by the names of nodes.
        project: a quantised graph, what `emit_verilog` returned, or its folder.
        inputs: real numbers, one tensor for each input, any number of inferences.

    Raises:
        ConfigError: for a graph without number formats.
        DataError: for inputs that the graph does not take, a file that cannot be run, and where no
            layer of the graph is in the model.
        ToolError: when the package onnxruntime is missing.
    """
    mg = _graph(project)
    tensors = _read(mg, inputs)
    theirs = _runtime(Path(model), mg, tensors) if not callable(model) else model(*tensors)
    reference = IntegerReference(mg)
    codes = [
        common(node).results["data_out_0"].quantized.encode(value)
        for node, value in zip(reference.inputs, tensors, strict=True)
    ]
    names = [node.name for node in mg.nodes if node.name in theirs]
    ours = reference(codes, names)
    layers = tuple(_layers(mg, ours, theirs))
    if not layers:
        raise DataError("no layer of the graph is a tensor of the model: trace the graph from it")
    return Comparison(layers)


def _read(mg: MaseGraph, inputs: object) -> list[Tensor]:
    arrays = [inputs] if isinstance(inputs, Tensor | np.ndarray) else inputs
    names = [node.name for node in mg.inputs]
    allowed = f"allowed: one array of numbers for each of {', '.join(names)}"
    if not isinstance(arrays, list | tuple):
        raise DataError(f"inputs are {type(arrays).__name__}; {allowed}")
    if len(arrays) != len(names):
        raise DataError(f"{len(arrays)} inputs are given; {allowed}")
    tensors = []
    for node, item in zip(mg.inputs, arrays, strict=True):
        try:
            value = item if isinstance(item, Tensor) else torch.from_numpy(np.asarray(item))
        except TypeError as error:
            raise DataError(f"input {node.name} is no array of numbers; {allowed}") from error
        wanted = tuple(common(node).results["data_out_0"].shape[1:])
        if not value.ndim or value.shape[1:] != wanted or not len(value):
            shape = ", ".join(["N", *map(str, wanted)])
            raise DataError(
                f"input {node.name} has shape {tuple(value.shape)}; expected ({shape}) for N "
                "inferences, 1 or more"
            )
        tensors.append(value.float() if value.is_floating_point() else value)
    if len({len(item) for item in tensors}) > 1:
        raise DataError(f"the inputs differ in their number of inferences; {allowed}")
    return tensors


def _graph(project: Project | MaseGraph | str | os.PathLike[str]) -> MaseGraph:
    if isinstance(project, Project):
        return project.mg
    if not isinstance(project, MaseGraph):
        return load_graph(Path(project))[0]
    if not project.has_formats:
        raise ConfigError(f"{project.name} has no number formats: give it to quantize first")
    return lowered(project)


def _layers(mg: MaseGraph, ours: Tensors, theirs: Tensors) -> Iterator[Agreed]:
    agree: Tensor | None = None
    for node in mg.nodes:
        if node.name not in theirs or node.name not in ours:
            continue
        number = common(node).results["data_out_0"].quantized
        codes, values = ours[node.name], theirs[node.name]
        if codes.numel() != values.numel():
            continue
        wanted = number.encode(values.double()).reshape(codes.shape)
        off = (codes != wanted).reshape(len(codes) if mg.batched else 1, -1)
        agree = torch.ones(len(off), dtype=torch.bool) if agree is None else agree
        first = int(off[agree].sum())
        agree = agree & ~off.any(1)
        step = _step(number)
        largest = (number.decode(codes) - number.decode(wanted)).abs().max() / step
        source = str(metadata(node).source)
        counts = codes.numel(), int(off.sum()), first
        yield Agreed(node.name, source, *counts, round(float(largest), 6))


def _step(number: Format) -> float:
    """Return the least distance of neighbouring values around zero."""
    zero = number.encode(torch.zeros(1))
    return float((number.decode(zero + 1) - number.decode(zero)).abs()) or 1.0


def _runtime(path: Path, mg: MaseGraph, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """Run every rounding of a file, and its results, in ONNX Runtime."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ToolError("comparing needs onnx and onnxruntime: pip install onnxruntime") from error
    if not path.is_file():
        raise DataError(f"{path} does not exist; give the ONNX file that the graph was traced from")
    try:
        model = onnx.load(str(path))
    except Exception as error:
        raise DataError(f"{path} cannot be read as an ONNX file: {error}") from error
    wanted = tensors_of(model, mg)
    del model.graph.output[:]
    for name in dict.fromkeys(wanted.values()):
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        return _run(session, wanted, inputs) if wanted else {}
    except Exception as error:
        reason = " ".join(str(error).split())
        raise DataError(f"ONNX Runtime does not run {path}: {reason}") from error


def _run(session: Any, wanted: Mapping[str, str], inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    rows: dict[str, list[Any]] = {name: [] for name in wanted.values()}
    entries = [(item.name, item.shape) for item in session.get_inputs()]
    size = entries[0][1][0] if isinstance(entries[0][1][0], int) else len(inputs[0])
    for start in range(0, len(inputs[0]), size):
        feeds = {
            name: value[start : start + size].numpy()
            for (name, _), value in zip(entries, inputs, strict=True)
        }
        results = session.run(list(rows), feeds)
        for name, value in zip(rows, results, strict=True):
            rows[name].append(value)
    return {node: torch.from_numpy(np.concatenate(rows[name])) for node, name in wanted.items()}


def tensors_of(model: ModelProto, mg: MaseGraph) -> dict[str, str]:
    """Return the tensor of a file that each node's result is, rounded.

    Args:
        model: the file that the graph was traced from.
        mg: a lowered graph.
    """
    readers: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    last, kept = dict[int, str](), dict[int, Format]()
    for node in mg.nodes:
        place = metadata(node).source.line
        if node.op != "call_function" or not 0 < place <= len(model.graph.node):
            continue
        # What carries a layer's result on, in another format, is no result of the layer.
        number = common(node).results["data_out_0"].quantized
        if place not in kept:
            kept[place] = metadata(node).declared.get("data_out_0", number)
        if number == kept[place]:
            last[place] = node.name
    own = {id(model.graph.node[place - 1]) for place in last}
    return {
        name: _behind(model.graph.node[place - 1].output[0], readers, own)
        for place, name in last.items()
    }


def _behind(name: str, readers: Mapping[str, Sequence[Any]], own: Collection[int]) -> str:
    """Return the tensor behind what a layer has taken in: scales, activation, and rounding."""
    for kinds in (("BatchNormalization",), ("Relu", "Clip"), *_ROUNDING):
        users = readers.get(name, [])
        if users and all(user.op_type in kinds and id(user) not in own for user in users):
            name = users[0].output[0]
    return name
