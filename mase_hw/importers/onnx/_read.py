"""A file of a stranger as an ONNX model: checked before anything is made of it.

Nothing of the file is run, and nothing is read outside its folder.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw.errors import CaptureError, ToolError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

OLDEST_OPSET = 7


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
    if model.functions:
        model = inliner.inline_local_functions(model)
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
    file = (folder / where).resolve()
    name = f"{path}: the data of {tensor.name!r}"
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
