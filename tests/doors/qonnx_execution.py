"""What the package qonnx itself computes of a file: its own executor, node by node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from mase_hw.exporters.comparison import tensors_of
from mase_hw.graph.reference import spec


def files():
    import qonnx

    return sorted(Path(qonnx.__file__).parent.glob("data/onnx/**/*.onnx"))


def label(path):
    """Return a file's name, told from others by its folder."""
    return path.stem if path.parent.name == "onnx" else f"{path.parent.name}/{path.stem}"


def inputs_of(path, examples):
    """Return inputs, whole numbers where the file says so."""
    from qonnx.core.modelwrapper import ModelWrapper

    model = ModelWrapper(str(path))
    held = {item.name for item in model.graph.initializer}
    names = [item.name for item in model.graph.input if item.name not in held]
    kinds = [model.get_tensor_datatype(name) for name in names]
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randint(int(kind.min()), int(kind.max()) + 1, item.shape, generator=generator).float()
        if kind.is_integer()
        else item
        for kind, item in zip(kinds, examples, strict=True)
    ]


def held_inputs(low, inputs):
    """Return inputs that the formats of a lowered graph's own inputs hold."""
    numbers = [spec(node).quantized for node in low.inputs]
    return [number.round_values(item) for number, item in zip(numbers, inputs, strict=True)]


def executed(path, x):
    """Return all tensors of a file by name, and its results, for one inference after the other."""
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation.infer_shapes import InferShapes

    model = ModelWrapper(str(path)).transform(InferShapes())
    held = {item.name for item in model.graph.initializer}
    names = [item.name for item in model.graph.input if item.name not in held]
    size = model.get_tensor_shape(names[0])[0]
    rows = [
        execute_onnx(
            model,
            {name: item[start : start + size].numpy() for name, item in zip(names, x, strict=True)},
            return_full_exec_context=True,
        )
        for start in range(0, len(x[0]), size)
    ]
    made = {name for node in model.graph.node for name in node.output if np.ndim(rows[0][name])}
    tensors = {name: torch.from_numpy(np.concatenate([row[name] for row in rows])) for name in made}
    return tensors, [item.name for item in model.graph.output]


def layers(path, mg):
    """Return what `compare` takes: reals by the names of a lowered graph's nodes."""
    from qonnx.core.modelwrapper import ModelWrapper

    places = tensors_of(ModelWrapper(str(path)).model, mg)

    def computed(*x):
        tensors, _ = executed(path, x)
        return {node: tensors[name] for node, name in places.items()}

    return computed
