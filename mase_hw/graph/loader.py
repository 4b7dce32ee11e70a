"""Loading of models that `torch.export.save` wrote."""

from __future__ import annotations

import zipfile
from contextlib import nullcontext
from pathlib import Path

import torch
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from mase_hw.errors import CaptureError
from mase_hw.graph.exported import from_exported
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.trace import quiet
from mase_hw.graph.untrusted import check_program, check_pt2, without_pickles


def load_pt2(path: str | Path, *, name: str | None = None, trusted: bool = False) -> MaseGraph:
    """Return the graph of a `.pt2` file of `torch.export.save`.

    The batch is dynamic where the file's leading input dimension is. Loading runs no code of the
    file, unless it is trusted.

    Args:
        path: the file.
        name: name of the design; the file's name when not given.
        trusted: whether pickles in the file are loaded, which can run anything.

    Raises:
        CaptureError: when the file is missing, of another kind, not tensor arithmetic alone, or not
            loaded without pickles.
    """
    file = Path(path)
    program = _read(file, trusted)
    if program.example_inputs is None:
        raise CaptureError(
            f"{file} holds no example inputs; save the program that torch.export.export returned"
        )
    args, kwargs = program.example_inputs
    try:
        with quiet(), torch.no_grad():
            graph = from_exported(program, name or file.stem, batched=True)
    except (SyntaxError, TypeError, ValueError, RuntimeError) as error:
        raise CaptureError(f"{file} is damaged: {type(error).__name__}: {error}") from error
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if len(tensors) != len(graph.inputs):
        raise CaptureError(f"{file} takes inputs that are no tensors; export it with tensors only")
    graph.example_inputs = tuple(tensors)
    return graph


def _read(file: Path, trusted: bool) -> ExportedProgram:
    if not file.is_file():
        raise CaptureError(f"{file} does not exist; give a .pt2 file of torch.export.save")
    try:
        is_archive = zipfile.is_zipfile(file)
    except zipfile.BadZipFile:
        is_archive = False
    if not is_archive:
        raise CaptureError(f"{file} is not a .pt2 file: torch.export.save writes a zip archive")
    if not trusted:
        check_pt2(file)
    try:
        with quiet(), nullcontext() if trusted else without_pickles():
            program = torch.export.load(str(file))
    except Exception as error:
        raise CaptureError(
            f"{file} is a zip archive, but none that torch.export.save wrote (torch.save writes "
            "another kind); save the program that torch.export.export returns"
        ) from error
    if not trusted:
        check_program(file, program)
    return program
