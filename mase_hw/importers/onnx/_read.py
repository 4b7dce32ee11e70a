"""A file of a stranger as an ONNX model: checked before anything is made of it.

Nothing of the file is run, and nothing is read outside its folder.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mase_hw.errors import CaptureError, ToolError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

OLDEST_OPSET = 7
# Of a file, those of functions counted at each call; and of calls of functions in functions.
MAX_NODES, MAX_DEPTH = 20_000, 100


def read_model(path: Path) -> ModelProto:
    """Return a checked model whose tensors are all inside it.

    Raises:
        CaptureError: for a file that is damaged, hostile, too new or too old; the message says
            which node or tensor.
        ToolError: when the package onnx is missing.
    """
    try:
        import onnx
        from onnx import checker, inliner
    except ImportError as error:
        raise ToolError("an ONNX file needs the package onnx: pip install mase-hw[onnx]") from error
    if not path.is_file():
        raise CaptureError(f"{path} does not exist; give a file of ONNX")
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise CaptureError(f"{path} is damaged, or no ONNX file: it cannot be parsed") from error
    if not model.graph.node:
        raise CaptureError(f"{path} holds no nodes: it is empty or no ONNX file")
    _check_versions(path, model, onnx.defs.onnx_opset_version())
    for tensor in model.graph.initializer:
        _bring_in(path, tensor)
    _check_inside(path, model, "")
    _check_count(path, model)
    if model.functions:
        try:
            model = inliner.inline_local_functions(model)
        except Exception as error:
            raise CaptureError(f"{path} has functions that do not fit: {error}") from error
    _check_graph(path, model.graph)
    # Files of other tools leave out the versions of their own domains.
    known = {item.domain for item in model.opset_import}
    for domain in sorted({node.domain for node in model.graph.node} - known - {"", "ai.onnx"}):
        model.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    try:
        checker.check_model(_with_shapes(model))
    except checker.ValidationError as error:
        reason = " ".join(str(error).split("==>")[0].split())
        raise CaptureError(f"{path} is no valid ONNX model: {reason}") from error
    return model


def _with_shapes(model: ModelProto) -> ModelProto:
    """Return a model, or a copy whose inputs and results all say a shape, as the checker asks."""
    names = ("input", "output")
    if all(_says_shape(item) for name in names for item in getattr(model.graph, name)):
        return model
    model = copy.deepcopy(model)
    for name in names:
        for item in getattr(model.graph, name):
            if not _says_shape(item):
                item.type.tensor_type.shape.SetInParent()
    return model


def _says_shape(item: ValueInfoProto) -> bool:
    kind = item.type.WhichOneof("value")
    return kind != "tensor_type" or bool(item.type.tensor_type.HasField("shape"))


def node_name(node: NodeProto, number: int) -> str:
    """Return a node's name, or its place in the file."""
    return node.name or f"{node.op_type} number {number}"


def _check_versions(path: Path, model: ModelProto, newest: int) -> None:
    given = {item.domain: item.version for item in model.opset_import}
    version = given.get("", given.get("ai.onnx", newest))
    if not OLDEST_OPSET <= version <= newest:
        raise CaptureError(
            f"{path} uses opset {version} of ONNX; known are {OLDEST_OPSET} to {newest}"
        )


def _bring_in(path: Path, tensor: TensorProto) -> None:
    """Read a tensor that lies beside the model, in its folder or below."""
    from onnx import TensorProto, helper

    if tensor.data_location != TensorProto.EXTERNAL:
        return
    given = {item.key: item.value for item in tensor.external_data}
    folder, where = path.parent.resolve(), given.get("location", "")
    name = f"{path}: the data of {tensor.name!r}"
    try:
        file = (folder / where).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise CaptureError(f"{name} lies at {where!r}, which is no path: {error}") from error
    if not where or not file.is_relative_to(folder):
        raise CaptureError(f"{name} lies at {where!r}, outside the model's folder {folder}")
    if not file.is_file():
        raise CaptureError(f"{name} lies in {where!r}, which does not exist beside the model")
    try:
        count = 1
        for size in tensor.dims:
            count *= size
        wanted = count * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        offset = int(given.get("offset", 0))
        length = int(given.get("length", wanted))
    except (ValueError, KeyError, TypeError) as error:
        raise CaptureError(f"{name} has no location that can be read") from error
    if min(offset, count) < 0 or length != wanted or offset + length > file.stat().st_size:
        raise CaptureError(
            f"{name} is {length} bytes from byte {offset} of {where!r}; its shape "
            f"{list(tensor.dims)} takes {wanted}, and the file has {file.stat().st_size}"
        )
    with file.open("rb") as stream:
        stream.seek(offset)
        tensor.raw_data = stream.read(length)
    del tensor.external_data[:]
    tensor.data_location = TensorProto.DEFAULT


def _check_inside(path: Path, message: Any, where: str) -> None:
    """Refuse tensors in nodes, functions and inner graphs whose data lie in another file."""
    from onnx import NodeProto, TensorProto

    if isinstance(message, NodeProto):
        where = f" of node {message.name or message.op_type!r}"
    if isinstance(message, TensorProto):
        if message.data_location == TensorProto.EXTERNAL:
            raise CaptureError(
                f"{path}: the data of tensor {message.name!r}{where} lie in another file; allowed "
                "is that for initialisers alone: save the model with its data inside"
            )
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in [value] if hasattr(value, "ListFields") else value:
                _check_inside(path, item, where)


def _check_count(path: Path, model: ModelProto) -> None:
    """Refuse more nodes than anybody waits for, those of functions counted at each call."""
    functions = {(item.domain, item.name): item.node for item in model.functions}
    counts: dict[tuple[str, str], int] = {}

    def count(nodes: Iterable[NodeProto], above: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in nodes:
            key = node.domain, node.op_type
            if key in above or len(above) > MAX_DEPTH:
                what = "itself" if key in above else f"others more than {MAX_DEPTH} deep"
                raise CaptureError(f"{path}: function {node.op_type!r} calls {what}")
            if key in functions and key not in counts:
                counts[key] = count(functions[key], (*above, key))
            graphs = [item.g for item in node.attribute if item.HasField("g")]
            graphs += [graph for item in node.attribute for graph in item.graphs]
            total += counts.get(key, 1) + sum(count(item.node, above) for item in graphs)
        return total

    found = count(model.graph.node, ())
    if found > MAX_NODES:
        raise CaptureError(
            f"{path} has {found} nodes, with those of its functions; allowed are {MAX_NODES}"
        )


def _check_graph(path: Path, graph: GraphProto) -> None:
    """Refuse tensors that two nodes make, that none makes, or that come too late."""
    known = {item.name for item in graph.input} | {item.name for item in graph.initializer}
    known |= {item.values.name for item in graph.sparse_initializer}
    made = set(known) | {name for node in graph.node for name in node.output}
    for number, node in enumerate(graph.node, 1):
        name = node_name(node, number)
        for item in node.input:
            if item and item not in known:
                why = "comes behind it: a cycle" if item in made else "nothing makes"
                raise CaptureError(f"{path}: node {name!r} reads {item!r}, which {why}")
        for item in node.output:
            if item and item in known:
                raise CaptureError(f"{path}: node {name!r} makes {item!r}, which is there already")
            known.add(item)
    for output in graph.output:
        if output.name not in known:
            raise CaptureError(f"{path}: nothing makes the output {output.name!r}")
