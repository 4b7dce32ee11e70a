"""`export_onnx`: a quantised graph as ONNX, with its roundings as QDQ or as QONNX."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch.fx import Node

from mase_hw._results import result_file
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.formats import Format
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.scaled_integer import ScaledInteger
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, location, stream_operands
from mase_hw.ops import Call, Numeric

DIALECTS = ("qdq", "qonnx")
QONNX = "qonnx.custom_op.general"
# The first has integers of 8 bits alone, the second all of `TYPES`.
OPSET, WIDE_OPSET = 19, 21
TYPES = {(8, True): "INT8", (8, False): "UINT8", (16, True): "INT16", (16, False): "UINT16",
         (4, True): "INT4", (4, False): "UINT4"}  # fmt: skip
BIAS_BITS = 32
# Bits of a code that a real of single precision holds, times its scale.
REAL_BITS = 24
MATRIX = 2
MODES = {"nearest_even": "ROUND", "floor": "FLOOR", "toward_zero": "DOWN"}
Made = tuple[str, Mapping[str, Any]]


def export_onnx(mg: MaseGraph, path: str | os.PathLike[str], *, dialect: str = "qdq") -> Path:
    """Write a quantised graph as an ONNX file, for ONNX Runtime, Netron and other tools.

    Args:
        mg: what `quantize` returned.
        path: the file.
        dialect: `qdq`, quantisers of ONNX itself, for integers of 4, 8 and 16 bits; or `qonnx`, for
            any width.

    Returns:
        The path.

    Raises:
        ConfigError: for another dialect, or a graph without formats.
        UnsupportedError: for a node, or a format, that the dialect does not have; it names the
            node. Nothing is written then.
        OutputError: when the file cannot be written, or is somebody else's.
    """
    if dialect not in DIALECTS:
        raise ConfigError(f"dialect is {dialect!r}; allowed: {', '.join(DIALECTS)}")
    if not mg.has_formats:
        raise ConfigError(f"{mg.name} has no number formats: give it to quantize first")
    import onnx
    from onnx import TensorProto, helper

    writer = _Writer(mg, dialect)
    writer.write()

    def described(nodes: Sequence[Node], names: Sequence[str]) -> list[Any]:
        shapes: list[list[Any]] = [list(common(node).results["data_out_0"].shape) for node in nodes]
        if mg.batched:
            # The package qonnx runs files of known shapes.
            batch = 1 if dialect == "qonnx" else "batch"
            shapes = [[batch, *shape[1:]] for shape in shapes]
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(names, shapes, strict=True)
        ]

    entries = described(mg.inputs, [node.name for node in mg.inputs])
    results = described(mg.outputs, [writer.names[node] for node in mg.outputs])
    graph = helper.make_graph(writer.nodes, mg.name, entries, results, writer.tensors)
    kinds = {TensorProto.DataType.Name(item.data_type) for item in writer.tensors}
    wide = kinds & {"INT4", "UINT4", "INT16", "UINT16"}
    opsets = [helper.make_opsetid("", WIDE_OPSET if wide else OPSET)]
    if dialect == "qonnx":
        opsets.append(helper.make_opsetid(QONNX, 1))
    model = helper.make_model(graph, opset_imports=opsets, producer_name="mase-hw")
    onnx.checker.check_model(model)
    file = Path(path)
    with result_file(file) as whole:
        whole.write_bytes(model.SerializeToString())
    return file


@dataclass
class _Writer:
    """Nodes and tensors of a file.

    Attributes:
        mg: the graph.
        dialect: how roundings are spelled.
        names: of the tensor of each node.
    """

    mg: MaseGraph
    dialect: str
    nodes: list[Any] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)
    names: dict[Node, str] = field(default_factory=dict)

    def write(self) -> None:
        for node in self.mg.nodes:
            if node.op == "placeholder":
                self.names[node] = self._round(node, node.name)
            elif node.op == "call_function":
                self.names[node] = self._node(node)

    def _node(self, node: Node) -> str:
        call = self.mg.call(node)
        kind, attributes = _spelled(node, call)
        streams = dict(stream_operands(node))
        given = [
            self.names[streams[name]]
            if name in streams
            # A sum behind a product is merged with it where it is of plain numbers.
            else self._constant(call, name, plain=kind == "MatMul" and name == "bias")
            for name in call.operands
        ]
        if kind == "Identity":
            return self._round(node, given[0])
        if kind == "Reshape":
            shape = list(call.result.shape)
            shape[0] = -1 if self.mg.batched else shape[0]
            given = [given[0], self._tensor(np.array(shape, np.int64), f"{node.name}_shape")]
        if kind == "Clip":
            bounds = {name: attributes.get(name) for name in ("min", "max")}
            attributes = {}
            given += [
                "" if value is None else self._tensor(np.float32(value), f"{node.name}_{name}")
                for name, value in bounds.items()
            ]
        if kind == "MatMul":
            turned = f"{node.name}_transposed"
            given[1] = self._add("Transpose", [given[1]], turned, {"perm": [1, 0]})
            if len(given) > MATRIX:
                given[:2] = [self._add(kind, given[:2], f"{node.name}_product", {})]
                kind = "Add"
        raw = self._add(kind, given, f"{node.name}_exact", attributes)
        moves = Numeric.of(call.operator).keeps_format and not call.operator.casts
        return raw if moves else self._round(node, raw)

    def _add(
        self, kind: str, inputs: Sequence[str], name: str, attributes: Mapping[str, Any]
    ) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def _tensor(self, array: object, name: str, kind: str | None = None) -> str:
        from onnx import TensorProto, helper, numpy_helper

        if kind is None:
            self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        else:
            flat = np.asarray(array)
            tensor = helper.make_tensor(
                name, TensorProto.DataType.Value(kind), flat.shape, flat.reshape(-1).tolist()
            )
            self.tensors.append(tensor)
        return name

    def _round(self, node: Node, values: str) -> str:
        number = common(node).results["data_out_0"].format
        if number is None:
            return values
        where = f"{node.name} ({location(node)})"
        return self._rounded(number, values, node.name, where)

    def _rounded(self, number: Format, values: str, name: str, where: str) -> str:
        scale, points, bits, signed, narrow, mode = _levels(number, where)
        if self.dialect == "qonnx":
            if mode not in MODES:
                raise UnsupportedError(f"{where}: QONNX has no rounding {mode}")
            levels = np.float32(scale), points, bits
            return self._quant(values, f"{name}_rounded", levels, signed, narrow, MODES[mode])
        kind = TYPES.get((bits, signed))
        if kind is None or narrow or mode != "nearest_even":
            raise UnsupportedError(
                f"{where} is {number}; ONNX rounds to integers of 4, 8 and 16 bits, to nearest and "
                "with all codes: export it with dialect='qonnx'"
            )
        names = [
            self._tensor(np.float32(scale), f"{name}_scale"),
            self._tensor(points, f"{name}_zero_point", kind),
        ]
        codes = self._add("QuantizeLinear", [values, *names], f"{name}_codes", {})
        return self._add("DequantizeLinear", [codes, *names], f"{name}_rounded", {})

    def _quant(
        self, given: str, name: str, levels: tuple[Any, Any, int], signed: bool, narrow: bool,
        mode: str = "ROUND",
    ) -> str:  # fmt: skip
        """Add a `Quant` with a scale, a zero point and bits."""
        parts = zip(("scale", "zero_point", "bits"), levels, strict=True)
        inputs = [self._tensor(np.float32(value), f"{name}_{part}") for part, value in parts]
        attributes = {
            "signed": int(signed), "narrow": int(narrow), "rounding_mode": mode, "domain": QONNX,
        }  # fmt: skip
        return self._add("Quant", [given, *inputs], name, attributes)

    def _constant(self, call: Call, operand: str, *, plain: bool = False) -> str:
        """Write a constant as codes and their inverse, as reals and a `Quant`, or as reals."""
        number, codes = call.operands[operand].quantized, call.constant_codes(operand)
        name = f"{call.name}_{operand}"
        reals = number.decode(codes).float().numpy()
        if plain or number.bits_per_element > BIAS_BITS:
            return self._tensor(reals, name)
        scales = [2.0**-number.frac_width] if isinstance(number, Fixed) else None
        points = [0]
        if isinstance(number, ScaledInteger) and number.group_size is None:
            scales, points = list(number.scales), list(number.zero_points)
        if scales is None or not isinstance(number, Fixed | ScaledInteger):
            raise UnsupportedError(
                f"{operand} of {call.name} is {number}, which ONNX does not have"
            )
        if self.dialect == "qonnx":
            if number.width > REAL_BITS or len({*points}) > 1:
                return self._tensor(reals, name)
            shape = [1] * reals.ndim
            if len(scales) > 1:
                shape[int(getattr(number, "channel_axis", None) or 0)] = -1
            narrow = isinstance(number, ScaledInteger) and number.signed and number.symmetric
            levels = np.reshape(scales, shape if len(scales) > 1 else []), points[0], number.width
            exact = self._tensor(reals, f"{name}_reals")
            return self._quant(exact, name, levels, number.signed, narrow)
        kind = "INT8" if _fits(codes, 8) and not any(points) else "INT32"
        axis: dict[str, int] = {}
        if len(scales) > 1:
            assert isinstance(number, ScaledInteger)
            axis = {"axis": int(number.channel_axis or 0)}
        many = len(scales) > 1
        inputs = [
            self._tensor(codes.numpy(), f"{name}_codes", kind),
            self._tensor(np.array(scales if many else scales[0], np.float32), f"{name}_scale"),
            self._tensor(points if many else points[0], f"{name}_zero_point", kind),
        ]
        return self._add("DequantizeLinear", inputs, name, axis)


def _fits(codes: Tensor, bits: int) -> bool:
    half = 1 << (bits - 1)
    return bool(((codes >= -half) & (codes < half)).all())


def _levels(number: Format, where: str) -> tuple[float, int, int, bool, bool, str]:
    """Return scale, zero point, bits, sign, whether the least code is missing, and rounding."""
    if isinstance(number, Fixed) and number.overflow == "saturate":
        return 2.0**-number.frac_width, 0, number.width, number.signed, False, number.rounding
    if isinstance(number, ScaledInteger) and len(number.scales) == 1:
        (scale,), (point,) = number.scales, number.zero_points
        narrow = number.signed and number.symmetric
        return scale, point, number.width, number.signed, narrow, "nearest_even"
    raise UnsupportedError(f"{where} is {number}, which ONNX does not have")


def _pair(entry: Any, rank: int = 2) -> list[int]:
    return [entry] * rank if isinstance(entry, int) else list(entry) * (rank // len(list(entry)))


def _layer(node: Node, call: Call) -> Made:
    return ("Gemm", {"transB": 1}) if len(call.result.shape) == MATRIX else ("MatMul", {})


def _convolution(node: Node, call: Call) -> Made:
    attributes, rank = call.attributes, len(call.operands["weight"].shape) - 2
    if isinstance(attributes["padding"], str):
        raise UnsupportedError(f"{node.name} ({location(node)}): padding by name is not exported")
    return "Conv", {
        "strides": _pair(attributes["stride"], rank),
        "pads": _pair(attributes["padding"], rank) * 2,
        "dilations": _pair(attributes["dilation"], rank),
        "group": int(attributes["groups"]),
    }


def _pool(kind: str) -> Callable[[Node, Call], Made]:
    def spelled(node: Node, call: Call) -> Made:
        attributes, rank = call.attributes, len(call.result.shape) - 2
        fields: dict[str, object] = {
            "kernel_shape": _pair(attributes["kernel_size"], rank),
            "strides": _pair(attributes["stride"] or attributes["kernel_size"], rank),
            "pads": _pair(attributes["padding"], rank) * 2,
            "ceil_mode": int(bool(attributes.get("ceil_mode", False))),
        }
        if kind == "AveragePool":
            fields["count_include_pad"] = int(bool(attributes.get("count_include_pad", True)))
        return kind, fields

    return spelled


def _softmax(node: Node, call: Call) -> Made:
    return "Softmax", {"axis": int(call.attributes["dim"])}


def _clip(node: Node, call: Call) -> Made:
    given = call.attributes
    return "Clip", {end: given.get(end, given.get(f"{end}_val")) for end in ("min", "max")}


def _joined(node: Node, call: Call) -> Made:
    return "Concat", {"axis": int(call.attributes["dim"])}


def _permutation(node: Node, call: Call) -> Made:
    return "Transpose", {"perm": [int(dim) for dim in call.attributes["dims"]]}


def _plain(kind: str) -> Callable[[Node, Call], Made]:
    return lambda node, call: (kind, {})


SPELLED: Mapping[str, Callable[[Node, Call], Made]] = {
    "add": _plain("Add"),
    "avg_pool2d": _pool("AveragePool"),
    "cast": _plain("Identity"),
    "cat": _joined,
    "clamp": _clip,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "fake_quantize": _plain("Identity"),
    "flatten": _plain("Reshape"),
    "hardtanh": _clip,
    "linear": _layer,
    "max_pool2d": _pool("MaxPool"),
    "mul": _plain("Mul"),
    "permute": _permutation,
    "relu": _plain("Relu"),
    "relu6": lambda node, call: ("Clip", {"min": 0.0, "max": 6.0}),
    "reshape": _plain("Reshape"),
    "sigmoid": _plain("Sigmoid"),
    "softmax": _softmax,
    "sub": _plain("Sub"),
    "tanh": _plain("Tanh"),
}


def _spelled(node: Node, call: Call) -> Made:
    convert = SPELLED.get(call.operator.name)
    if convert is None:
        raise UnsupportedError(
            f"{node.name} ({location(node)}) is {call.operator.name}, which is not exported; "
            f"exported are {', '.join(sorted(SPELLED))}"
        )
    kind, attributes = convert(node, call)
    return kind, attributes
