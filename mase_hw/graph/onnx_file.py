"""ONNX files as graphs: captured as modules, each node named by its place in the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor
from torch.utils._pytree import tree_leaves

from mase_hw.errors import CaptureError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import SourceLocation
from mase_hw.graph.nodes import metadata, update

if TYPE_CHECKING:
    from mase_hw.importers.onnx import OnnxModule

SUFFIX = ".onnx"


def open_onnx(
    path: str | os.PathLike[str], example_inputs: object = None
) -> tuple[OnnxModule, tuple[Tensor, ...]]:
    """Return the module of an ONNX file and its example inputs.

    Raises:
        CaptureError: for another kind of file, and for what is not known in it.
    """
    if Path(path).suffix != SUFFIX:
        raise CaptureError(f"{path} is no ONNX file: its name must end in {SUFFIX}")
    from mase_hw.importers.onnx import load_onnx

    if example_inputs is None:
        return load_onnx(path)
    if isinstance(example_inputs, dict):
        return load_onnx(path, example_inputs)
    leaves = tree_leaves(example_inputs)
    return load_onnx(path, [leaf for leaf in leaves if isinstance(leaf, Tensor)])


def name_places(graph: MaseGraph, module: OnnxModule, path: str | os.PathLike[str]) -> None:
    """Say of every node of a graph which node of the file it comes from, in place."""
    for node in graph.nodes:
        found = module.places.get(metadata(node).module_path.split(".")[0])
        if found is not None:
            update(node, source=SourceLocation(str(path), *found))
