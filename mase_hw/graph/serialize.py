"""Saving and loading: one safetensors file holds weights, graph and metadata, and no code.

The file's `__metadata__` has one entry, `mase_graph`, a JSON object of version 1:

- `name`, `batched`, and `inputs`, the shape and dtype of every example input;
- `lengths`, which sequences may be shorter;
- `batch_dims`, where the batch of an input or a result is not its first dimension;
- `nodes`: name, op, target, arguments and metadata of every node, in topological order;
- `tensors`: for every parameter and buffer its kind, and the stored tensor it shares.

Example inputs are stored when they take less than a mebibyte. The same graph gives the same bytes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeVar

import safetensors
import torch
from safetensors.torch import save, save_file
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves

from mase_hw._kinds import Record, Table
from mase_hw._results import result_file
from mase_hw.errors import DataError, MaseError, OutputError
from mase_hw.graph import encoding
from mase_hw.graph.batch_dims import FIRST, BatchDims
from mase_hw.graph.captured import CapturedGraph
from mase_hw.graph.lengths import ONE_LENGTH, Lengths
from mase_hw.graph.nodes import dtype_name, metadata
from mase_hw.graph.rebuild import append_node, get_tensor, set_tensor
from mase_hw.graph.untrusted import check_identifier, check_path

GRAPH_VERSION = 1
G = TypeVar("G")
_KEY = "mase_graph"
_EXAMPLE_LIMIT_BYTES = 1 << 20
# Inputs are beyond what anybody simulates from here on.
_LARGEST_EXAMPLE_BYTES = 1 << 32
_DAMAGES = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, RuntimeError),
    *(SyntaxError, TypeError, ValueError),
)


def save_graph(mg: CapturedGraph, path: str | Path) -> Path:
    """Write `mg` to the file `path`, whole or not at all.

    Raises:
        MaseError: when a node holds what has no description, such as a Python function.
        OutputError: when the file cannot be written, or is somebody else's.
    """
    target = Path(path)
    stored, known = _content(mg)
    with result_file(target) as made:
        try:
            save_file(stored, made, known)
        except safetensors.SafetensorError as error:
            raise OutputError(f"{target} cannot be written: {error}") from error
    return target


def to_bytes(mg: CapturedGraph) -> bytes:
    """Return the content of the file that `save_graph` writes."""
    return save(*_content(mg))


def _content(mg: CapturedGraph) -> tuple[dict[str, Tensor], dict[str, str]]:
    tensors, entries = _state(mg)
    stored = {f"state/{name}": value for name, value in tensors.items()}
    examples = [value.detach().cpu().contiguous() for value in mg.example_inputs]
    if sum(value.numel() * value.element_size() for value in examples) < _EXAMPLE_LIMIT_BYTES:
        stored |= {f"example/{index}": value.clone() for index, value in enumerate(examples)}
    description = {
        "version": GRAPH_VERSION,
        "name": mg.name,
        "batched": mg.batched,
        **({"frozen": sorted(mg.frozen)} if mg.frozen else {}),
        **({"batch_dims": asdict(mg.batch_dims)} if mg.batch_dims else {}),
        **({"lengths": asdict(mg.lengths)} if mg.lengths.size else {}),
        "inputs": [[dtype_name(value.dtype), list(value.shape)] for value in examples],
        "nodes": [_node_entry(node) for node in mg.nodes],
        "tensors": entries,
    }
    return stored, {_KEY: json.dumps(description)}


def from_bytes(content: bytes, kind: Callable[..., G]) -> G:
    """Return the graph of `to_bytes`."""
    with NamedTemporaryFile(suffix=".mase") as file:
        file.write(content)
        file.flush()
        return load_graph(file.name, kind)


def load_graph(path: str | Path, kind: Callable[..., G]) -> G:
    """Read a graph that `save_graph` wrote.

    Args:
        path: the file.
        kind: makes a graph of a module and the rest.

    Raises:
        DataError: when the file is missing, of another kind or of another version.
    """
    description, tensors = _read(Path(path))
    try:
        return _restore(description, tensors, kind)
    except DataError as error:
        raise DataError(f"{path} is damaged: {error}") from error
    except _DAMAGES as error:
        reason = re.sub(r"\s+", " ", str(error))
        raise DataError(f"{path} is damaged: {type(error).__name__}: {reason:.200}") from error


def _restore(description: Table, tensors: Mapping[str, Tensor], kind: Callable[..., G]) -> G:
    root = _restore_state(description["tensors"], tensors)
    graph = Graph()
    nodes: dict[str, Node] = {}
    for entry in description["nodes"]:
        meta = {"mase": encoding.decode_metadata(entry["metadata"])}
        args = encoding.decode_argument(entry["args"], nodes)
        kwargs = encoding.decode_argument(entry["kwargs"], nodes)
        target = encoding.decode_target(entry["op"], entry["target"])
        name = check_identifier(entry["name"], "the name of a node")
        for key in kwargs:
            check_identifier(key, f"an argument of {name}")
        if name in nodes:
            raise DataError(f"two nodes are called {name}")
        nodes[name] = append_node(graph, entry["op"], target, args, kwargs, name, meta)
    if sum(node.op == "output" for node in nodes.values()) != 1:
        raise DataError("its graph does not return once")
    model = GraphModule(root, graph)
    graph.lint()
    examples = [
        _example(tensors.get(f"example/{index}"), dtype, shape)
        for index, (dtype, shape) in enumerate(description["inputs"])
    ]
    inputs = sum(node.op == "placeholder" for node in nodes.values())
    if inputs != len(examples):
        raise DataError(f"its graph has {inputs} inputs, and {len(examples)} are described")
    return kind(
        model,
        name=check_identifier(description["name"], "the name"),
        batched=bool(description["batched"]),
        frozen=description.get("frozen", ()),
        batch_dims=_batch_dims(description.get("batch_dims"), graph),
        lengths=_lengths(description.get("lengths")),
        example_inputs=examples,
    )


def _batch_dims(entry: Table | None, graph: Graph) -> BatchDims:
    if entry is None:
        return FIRST
    inputs, results = ([int(dim) for dim in entry[name]] for name in ("inputs", "results"))
    leaves = tree_leaves(graph.output_node().args[0])
    taken = sum(node.op == "placeholder" for node in graph.nodes)
    if not {*inputs, *results} <= {0, 1} or (len(inputs), len(results)) != (taken, len(leaves)):
        raise DataError(f"its batch is said to be in the dimensions {inputs} and {results}")
    return BatchDims(tuple(inputs), tuple(results))


def _lengths(entry: Table | None) -> Lengths:
    if entry is None:
        return ONE_LENGTH
    results = entry["results"]
    return Lengths(
        int(entry["size"]),
        {str(name): int(fill) for name, fill in entry["fills"].items()},
        results if results is None else tuple(tuple(map(int, dims)) for dims in results),
    )


def _example(stored: Tensor | None, dtype: str, shape: Sequence[int]) -> Tensor:
    kind = encoding.decode_argument({"dtype": dtype}, {})
    if stored is not None:
        return stored
    if math.prod(shape) * kind.itemsize > _LARGEST_EXAMPLE_BYTES:
        raise DataError(f"an input has the shape {list(shape)}")
    return torch.zeros(shape, dtype=kind)


def _node_entry(node: Node) -> Record:
    if node.op == "call_module":
        raise MaseError(f"node {node.name} calls a module, which cannot be saved")
    return {
        "name": node.name,
        "op": node.op,
        "target": encoding.encode_target(node),
        "args": encoding.encode_argument(tuple(node.args)),
        "kwargs": encoding.encode_argument(dict(node.kwargs)),
        "metadata": encoding.encode_metadata(metadata(node)),
    }


def _state(mg: CapturedGraph) -> tuple[dict[str, Tensor], dict[str, object]]:
    first: dict[int, str] = {}
    stored: dict[str, Tensor] = {}
    entries: dict[str, object] = {}
    for target in sorted({str(node.target) for node in mg.nodes if node.op == "get_attr"}):
        value = get_tensor(mg.model, target)
        name = first.setdefault(id(value), target)
        if name == target:
            stored[name] = value.detach().cpu().contiguous().clone()
        entries[target] = {
            "tensor": name,
            "parameter": isinstance(value, nn.Parameter),
            "requires_grad": value.requires_grad,
        }
    return stored, entries


def _restore_state(entries: Table, tensors: Mapping[str, Tensor]) -> nn.Module:
    root = nn.Module()
    values: dict[str, Tensor] = {}
    for target, entry in entries.items():
        check_path(target, "the name of a parameter")
        name = entry["tensor"]
        if name not in values:
            value = tensors[f"state/{name}"]
            parameter = entry["parameter"]
            values[name] = nn.Parameter(value, entry["requires_grad"]) if parameter else value
        set_tensor(root, target, values[name])
    return root


def _read(path: Path) -> tuple[dict[str, object], dict[str, Tensor]]:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(_KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        reason = re.sub(r"\s+", " ", str(error))
        raise DataError(f"{path} is not a saved graph: {reason}") from error
    if text is None:
        raise DataError(f"{path} holds tensors but no graph; `MaseGraph.save` writes both")
    try:
        description: dict[str, object] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged: its graph is not JSON: {error}") from error
    if not isinstance(description, dict):
        raise DataError(f"{path} is damaged: its graph is no object of JSON")
    if description.get("version") != GRAPH_VERSION:
        raise DataError(
            f"{path} is a graph of version {description.get('version')}; "
            f"this release reads version {GRAPH_VERSION}"
        )
    return description, tensors
