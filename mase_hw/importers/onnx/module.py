"""`load_onnx`: a file as a module of torch, one submodule a node, with example inputs."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from mase_hw.errors import CaptureError, MaseError
from mase_hw.importers.onnx._annotations import annotated_levels
from mase_hw.importers.onnx._families import function_of
from mase_hw.importers.onnx._read import node_name, read_model
from mase_hw.importers.onnx._values import (
    MAX_COMPUTED,
    MAX_ELEMENTS,
    Attributes,
    Codes,
    Constant,
    Floats,
    Levels,
    NodeCall,
    Sums,
    Value,
)

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto, ValueInfoProto

# Constants behind these keep the formats that they say; what the others say must be seen.
_ROUNDS = {"DequantizeLinear", "FloatQuant", "Quant", "IntQuant", "BipolarQuant", "Trunc"}
_NOT_AHEAD = {"QuantizeLinear", "MultiThreshold"}
_RANDOM = ("Random", "Bernoulli", "Multinomial")
_DTYPES = ("float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
           "bool", "int4", "uint4")  # fmt: skip
NARROW = {
    "INT8": (-128, 127),
    "UINT8": (0, 255),
    "INT16": (-(1 << 15), (1 << 15) - 1),
    "UINT16": (0, (1 << 16) - 1),
}
LONGEST_NAME = 40
# Nodes that are not computed ahead.
MAX_NODES = 2_500
_SIZES = {"strides", "dilations", "kernel_shape", "group", "num_heads"}
# What torch, NumPy and onnx raise where a node or a file is no good.
_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError,
           TypeError, ValueError)  # fmt: skip


class OnnxNode(nn.Module):
    """One node of a file.

    Args:
        call: what it is.

    Attributes:
        call: what it is.
    """

    def __init__(self, call: NodeCall) -> None:
        super().__init__()
        self.call = call
        self._function = function_of(call)

    def forward(self, *values: Value) -> Any:
        """Return its results.

        Raises:
            CaptureError: naming the node.
        """
        try:
            results = self._function(self.call, *values)
            # Sums become a layer once their scale is there: it reads its attributes then.
            if not isinstance(results, Sums):
                self.call.check_attributes()
            return results
        except MaseError:
            raise
        except _FAULTS as error:
            reason = next((line for line in str(error).splitlines() if line.strip()), "")
            raise self.call.refuse(f"it does not fit what it is given: {reason}") from error


class OnnxModule(nn.Module):
    """An ONNX model that computes with torch.

    Inputs and results are those of the file, in its order; integer codes among them are the real
    numbers for which they stand.

    Args:
        model: a checked model.
        title: the file, for messages.

    Attributes:
        places: by the name of a submodule, the number of the node in the file, and what it is.
    """

    def __init__(self, model: ModelProto, title: str) -> None:
        super().__init__()
        self._title = title
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._levels: dict[str, Levels | Floats] = {}
        self._held: dict[str, str] = {}
        self._order: list[tuple[str, list[str], list[str]]] = []
        self.places: dict[str, tuple[int, str]] = {}
        self._arrays |= {item.name: _array(title, item) for item in model.graph.initializer}
        self._kinds = annotated_levels(model, title)
        self._levels |= {
            name: levels for name, levels in self._kinds.items() if name in self._arrays
        }
        self._inputs = [item for item in model.graph.input if item.name not in self._arrays]
        self._outputs = [item.name for item in model.graph.output]
        self._add_nodes(model)
        self._hold()

    def _add_nodes(self, model: ModelProto) -> None:
        from onnx import helper

        versions = {item.domain: item.version for item in model.opset_import}
        numbered = list(enumerate(model.graph.node, 1))
        stems = _stems([node_name(node, number) for number, node in numbered])
        for number, node in numbered:
            given = {
                item.name: _attribute(self._title, helper.get_attribute_value(item))
                for item in node.attribute
            }
            for name in _SIZES & given.keys():
                if min([given[name]] if isinstance(given[name], int) else given[name]) < 1:
                    what = f"its {name} is {given[name]}; allowed are numbers from 1"
                    raise CaptureError(f"node {node_name(node, number)!r}: {what}")
            version = versions.get(node.domain, versions.get("ai.onnx", 1))
            call = NodeCall(
                node_name(node, number), node.op_type, node.domain, version, Attributes(given),
                len(node.output),
            )  # fmt: skip
            module = OnnxNode(call)
            if self._computed_ahead(module, list(node.input), list(node.output)):
                continue
            name = stems[number - 1]
            self.add_module(name, module)
            self.places[name] = number, f"{node.op_type} {call.name}"
            self._order.append((name, list(node.input), list(node.output)))
        if len(self._order) > MAX_NODES:
            raise CaptureError(
                f"{self._title} computes {len(self._order)} nodes of its inputs; allowed are "
                f"{MAX_NODES}"
            )

    def _computed_ahead(self, node: OnnxNode, inputs: list[str], outputs: list[str]) -> bool:
        kind = node.call.type
        if kind in _NOT_AHEAD or kind.startswith(_RANDOM):
            return False
        if any(name and name not in self._arrays for name in inputs):
            return False
        operands = [
            Constant(self._arrays[name], None, self._levels.get(name)) if name else None
            for name in inputs
        ]
        with torch.no_grad():
            if kind not in _ROUNDS:
                meta = [
                    item and replace(item, tensor=torch.from_numpy(item.array).to("meta"))
                    for item in operands
                ]
                _check_sizes(node.call, node(*meta))
            results = _listed(node(*operands))
        for name, value in zip(outputs, results, strict=False):
            if not isinstance(value, Constant):
                self._arrays[name] = value.detach().numpy()
                continue
            self._arrays[name] = value.array
            if value.levels is not None:
                self._levels[name] = value.levels
        return True

    def _hold(self) -> None:
        """Make parameters of real constants that nodes read, and buffers of others.

        Means and variances of a batch normalisation are no parameters in torch either.
        """
        observed = {
            item
            for name, inputs, _ in self._order
            if getattr(self, name).call.type == "BatchNormalization"
            for item in inputs[3:]
        }
        read = {name for _, inputs, _ in self._order for name in inputs} | {*self._outputs}
        taken = {name for name, _ in self.named_children()}
        for name in [item for item in self._arrays if item in read]:
            tensor = torch.from_numpy(np.array(self._arrays[name], order="C"))
            held = _unique(_plain(name) or "constant", taken)
            self._held[name] = held
            if tensor.is_floating_point() and name not in observed:
                self.register_parameter(held, nn.Parameter(tensor))
            else:
                self.register_buffer(held, tensor)

    def forward(self, *inputs: Tensor) -> Any:
        """Return the results of the file."""
        values = self._run(inputs)
        results = [_real(values[name]) for name in self._outputs]
        return results[0] if len(results) == 1 else tuple(results)

    def _run(self, inputs: Sequence[Tensor]) -> dict[str, Value]:
        values: dict[str, Value] = {
            name: Constant(
                self._arrays[name], _rounded(getattr(self, held), self._levels.get(name))
            )
            for name, held in self._held.items()
        }
        for item, tensor in zip(self._inputs, inputs, strict=True):
            values[item.name] = _entering(item, _rounded(tensor, self._kinds.get(item.name)))
        for name, operands, results in self._order:
            given = [values[item] if item else None for item in operands]
            values |= dict(zip(results, _listed(getattr(self, name)(*given)), strict=False))
        return values

    def named_values(self, *inputs: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor of the file by its name."""
        for name, value in self._run(inputs).items():
            if isinstance(value, Tensor | Codes):
                yield name, _real(value)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs, in order."""
        return [item.name for item in self._inputs]

    def check_sizes(self, inputs: Sequence[Tensor]) -> None:
        """Find the size of every tensor, computing nothing.

        Raises:
            CaptureError: naming the node whose operands do not fit, or whose result is too large.
        """
        held = self.state_dict()
        values: dict[str, Value] = {
            name: Constant(self._arrays[name], held[place].to("meta"))
            for name, place in self._held.items()
        }
        for item, tensor in zip(self._inputs, inputs, strict=True):
            _check_input(self._title, item.name, tuple(tensor.shape))
            values[item.name] = _entering(item, tensor.to("meta"))
        for name, operands, results in self._order:
            node = getattr(self, name)
            with torch.device("meta"):
                computed = _listed(node(*(values[item] if item else None for item in operands)))
            _check_sizes(node.call, computed, MAX_COMPUTED)
            values |= dict(zip(results, computed, strict=False))


def load_onnx(
    path: str | os.PathLike[str],
    example_inputs: Sequence[Tensor] | Mapping[str, Tensor] | None = None,
) -> tuple[OnnxModule, tuple[Tensor, ...]]:
    """Return the module of an ONNX file, and example inputs.

    Args:
        path: the file; tensors beside it are read from its folder alone.
        example_inputs: a tensor for each input, in order or by name; random ones when not given,
            where the file says all sizes but the first.

    Raises:
        CaptureError: for a file that is damaged, or that holds what is not known; it names the
            node.
        ToolError: when the package onnx is missing.
    """
    file = Path(path)
    try:
        return _loaded(file, example_inputs)
    except MaseError:
        raise
    except _FAULTS as error:
        reason = " ".join(str(error).split())[:200]
        raise CaptureError(f"{file} is no valid ONNX model: {reason}") from error


def _loaded(
    file: Path, example_inputs: Sequence[Tensor] | Mapping[str, Tensor] | None
) -> tuple[OnnxModule, tuple[Tensor, ...]]:
    module = OnnxModule(read_model(file), str(file)).eval()
    if example_inputs is None:
        generator = torch.Generator().manual_seed(0)
        inputs = tuple(_example(file, item, generator) for item in module._inputs)
    else:
        if isinstance(example_inputs, Mapping):
            if set(example_inputs) != set(module.input_names):
                raise CaptureError(
                    f"{file} takes inputs {', '.join(module.input_names)}; "
                    f"{', '.join(example_inputs)} are given"
                )
            example_inputs = [example_inputs[name] for name in module.input_names]
        inputs = tuple(example_inputs)
        if len(inputs) != len(module._inputs):
            raise CaptureError(
                f"{file} takes {len(module._inputs)} inputs ({', '.join(module.input_names)}), and "
                f"{len(inputs)} are given"
            )
    if not inputs:
        raise CaptureError(f"{file} takes no input: there is nothing to make hardware of")
    module.check_sizes(inputs)
    return module, inputs


def _rounded(tensor: Tensor, levels: Levels | Floats | None) -> Tensor:
    return tensor if levels is None else levels.rounded(tensor)


def _attribute(title: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if type(value).__name__ == "TensorProto":
        return _array(title, value)
    return [_attribute(title, item) for item in value] if isinstance(value, list) else value


def _array(title: str, tensor: TensorProto) -> np.ndarray[Any, Any]:
    from onnx import TensorProto, numpy_helper

    kinds = {number: name for name, number in TensorProto.DataType.items()}
    kind = kinds.get(tensor.data_type, f"type {tensor.data_type}").lower()
    kind = {"float": "float32", "double": "float64"}.get(kind, kind)
    if kind not in _DTYPES:
        cure = ": give the model before it was quantised, and the format fp8_e4m3"
        raise CaptureError(
            f"{title}: tensor {tensor.name!r} is of {kind}; allowed are {', '.join(_DTYPES)}"
            f"{cure if kind.startswith('float8') else ''}"
        )
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:
        raise CaptureError(f"{title}: tensor {tensor.name!r} is damaged: {error}") from error
    if kind in ("int4", "uint4"):
        array = array.astype(np.int8 if kind == "int4" else np.uint8)
    return np.array(array)


def _entering(item: ValueInfoProto, tensor: Tensor) -> Value:
    """Return an input; one of narrow integers is taken for their codes."""
    from onnx import TensorProto

    kind = TensorProto.DataType.Name(item.type.tensor_type.elem_type)
    if kind in NARROW and tensor.is_floating_point():
        return Codes(tensor, None, *NARROW[kind])
    return tensor


def _example(file: Path, item: ValueInfoProto, generator: torch.Generator) -> Tensor:
    from onnx import TensorProto

    kind = item.type.WhichOneof("value")
    if kind != "tensor_type":
        raise CaptureError(f"{file}: input {item.name!r} is no tensor")
    given = item.type.tensor_type
    dims = list(given.shape.dim)
    shape = [int(dim.dim_value) if dim.HasField("dim_value") else 0 for dim in dims]
    shape = [size or int(place == 0) for place, size in enumerate(shape)]
    unknown = [place for place, size in enumerate(shape) if size < 1]
    if not given.HasField("shape") or unknown:
        what = f"the size of dimension {unknown[0]}" if unknown else "the shape"
        raise CaptureError(
            f"{file}: it does not say {what} of input {item.name!r}; give example inputs: "
            f"trace({file.name!r}, example_inputs), or --inputs"
        )
    _check_input(str(file), item.name, shape)
    if given.elem_type in (TensorProto.INT32, TensorProto.INT64):
        return torch.zeros(shape, dtype=torch.int64)
    if given.elem_type == TensorProto.BOOL:
        return torch.zeros(shape, dtype=torch.bool)
    if given.elem_type in (TensorProto.STRING, TensorProto.FLOAT16, TensorProto.BFLOAT16):
        name = TensorProto.DataType.Name(given.elem_type).lower()
        raise CaptureError(
            f"{file}: input {item.name!r} is of {name}; allowed are {', '.join(_DTYPES)}"
        )
    values = torch.randn(shape, generator=generator)
    return values.double() if given.elem_type == TensorProto.DOUBLE else values


def _real(value: Value) -> Tensor:
    if isinstance(value, Codes | Sums):
        return value.values
    if isinstance(value, Constant):
        return value.tensor if value.tensor is not None else torch.from_numpy(value.array)
    assert value is not None
    return value


def _listed(results: object) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]


def _check_input(title: str, name: str, shape: Sequence[int]) -> None:
    if (elements := math.prod(shape)) > MAX_COMPUTED:
        raise CaptureError(
            f"{title}: input {name!r} has {elements} elements; allowed are {MAX_COMPUTED}"
        )


def _check_sizes(call: NodeCall, results: object, most: int = MAX_ELEMENTS) -> None:
    for value in _listed(results):
        tensor = value.values if isinstance(value, Codes | Sums) else value
        elements = tensor.numel() if isinstance(tensor, Tensor) else 0
        if elements > most:
            raise call.refuse(
                f"its result has {elements} elements, {list(tensor.shape)}; allowed are {most}"
            )


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")


def _stems(names: Sequence[str]) -> list[str]:
    """Return an identifier for each node: its name without what all names begin with."""
    paths = [re.split(r"[/.]", name.split(";")[0].strip("/")) for name in names]
    long = [path for path in paths if len(path) > 1]
    shared = 0
    while long and all(len(path) > shared + 1 for path in long):
        if len({path[shared] for path in long}) > 1:
            break
        shared += 1
    taken: set[str] = set()
    stems = []
    for path in paths:
        own = path[shared:] if len(path) > 1 else path
        stem = _plain("_".join(own))[-LONGEST_NAME:].strip("_")
        stems.append(_unique(stem or "node", taken))
    return stems


def _unique(stem: str, taken: set[str]) -> str:
    if stem[0].isdigit() or hasattr(nn.Module, stem) or stem in ("training", "places"):
        stem = f"n_{stem}"
    name, number = stem, 0
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name)
    return name
