"""Weights from files: a trained, pruned or fused graph, or a checkpoint of tensors by name."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.masks import hold_masks
from mase_hw.graph.state import KEY, state_of, take_state
from mase_hw.registry import nearest

_logger = logging.getLogger(__name__)

GRAPH_SUFFIX = ".mase"
SUFFIXES = (GRAPH_SUFFIX, ".safetensors", ".pt", ".pth")


def load_weights(mg: MaseGraph, path: str | Path) -> MaseGraph:
    """Return the graph with the weights of a file.

    A `.mase` file of `MaseGraph.save` brings its own graph, which takes the place of this one: its
    layers may be smaller. A `.safetensors` file, or a `.pt` file of `torch.save`, holds tensors by
    the names of the model's parameters and buffers, or a checkpoint whose entry `model` does.

    Args:
        mg: the captured graph.
        path: the file.

    Raises:
        DataError: when the file cannot be read, or does not fit the graph.
    """
    file = Path(path)
    if file.suffix not in SUFFIXES:
        raise DataError(f"weights {file} end in {file.suffix!r}; allowed: {', '.join(SUFFIXES)}")
    if not file.is_file():
        raise DataError(f"weights {file} do not exist")
    if file.suffix == GRAPH_SUFFIX:
        return _replacement(mg, MaseGraph.load(file), file)
    mg = mg.copy()
    state = mg.model.state_dict()
    content = _read(file)
    formats = content.pop(KEY, None)
    _check(state, content, file)
    if state_of(mg) is not None:
        if formats is None:
            raise DataError(f"{file} holds no number formats, and {mg.name} has some")
        take_state(mg, formats)
    elif formats is not None:
        _logger.warning(
            "%s: its number formats are left out, because %s has none yet; a .mase file of "
            "MaseGraph.save brings them",
            file,
            mg.name,
        )
    with torch.no_grad():
        for name, value in state.items():
            value.copy_(content[name])
    hold_masks(mg)
    return mg


def with_tensors(mg: MaseGraph, path: Path) -> MaseGraph:
    """Return a graph with the tensors of a file, in the formats that it has.

    Args:
        mg: any graph, one of hardware too.
        path: a checkpoint of `load_weights`, or a graph with the same tensors.

    Raises:
        DataError: when the file cannot be read, or its tensors do not fit.
    """
    if path.suffix not in SUFFIXES or not path.is_file():
        raise DataError(f"weights {path} are no file that ends in {', '.join(SUFFIXES)}")
    if path.suffix == GRAPH_SUFFIX:
        content = dict(MaseGraph.load(path).model.state_dict())
    else:
        content = _read(path)
    mg = mg.copy()
    state = mg.model.state_dict()
    tensors = {name: value for name, value in content.items() if name != KEY}
    _check(state, tensors, path)
    with torch.no_grad():
        for name, value in state.items():
            value.copy_(tensors[name])
    return mg


def _replacement(mg: MaseGraph, other: MaseGraph, file: Path) -> MaseGraph:
    shapes = [
        [(str(node.target), list(value.shape[1:])) for node, value in _entries(item)]
        for item in (mg, other)
    ]
    if shapes[0] != shapes[1]:
        raise DataError(
            f"{file} is a graph of the inputs {shapes[1]}, but {mg.name} takes {shapes[0]}"
        )
    return other


def _entries(mg: MaseGraph) -> list[tuple[Any, Tensor]]:
    return list(zip(mg.inputs, mg.example_inputs, strict=True))


def _read(file: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    try:
        content: object = (
            load_file(file)
            if file.suffix == ".safetensors"
            else torch.load(file, weights_only=True, map_location="cpu")
        )
    except Exception as error:
        reason = re.sub(r"\s+", " ", str(error))[:200]
        raise DataError(f"{file} cannot be read as a checkpoint: {reason}") from error
    if isinstance(content, Mapping) and isinstance(content.get("model"), Mapping):
        content = content["model"]
    if not isinstance(content, Mapping) or not all(
        isinstance(value, Tensor) for value in content.values()
    ):
        raise DataError(f"{file} holds no tensors by name: save `model.state_dict()`")
    return {str(name).removeprefix("graph_model."): value for name, value in content.items()}


def _check(state: Mapping[str, Tensor], tensors: Mapping[str, Tensor], file: Path) -> None:
    """Raise unless every tensor is there in its shape; counters that nothing reads may be more."""
    problems = [f"{name} is missing" for name in state if name not in tensors]
    problems += [
        f"{name} is {list(tensors[name].shape)}, the model's {list(value.shape)}"
        for name, value in state.items()
        if name in tensors and tensors[name].shape != value.shape
    ]
    problems += [
        f"the model has no {name}; {nearest(name, state)}"
        for name, value in tensors.items()
        if name not in state and value.is_floating_point()
    ]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise DataError(f"{file} does not fit the model: {'; '.join(problems[:3])}{more}")
