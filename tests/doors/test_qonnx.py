"""QONNX: thresholds, signs, truncation and roundings against their definitions in double."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.errors import CaptureError, MaseError
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.importers.onnx import load_onnx

DOMAIN = "qonnx.custom_op.general"
BITS = 6


class Network:
    """A layer on codes, something of QONNX, and another layer."""

    def __init__(self, seed=0, steps=(0.0625, 0.125, 0.25)):
        random = np.random.default_rng(seed)
        self.steps = steps
        self.weight = self.rounded(random.normal(size=(6, 5)) / 4, steps[1], -8, 7)
        self.second = self.rounded(random.normal(size=(5, 3)) / 4, steps[1], -8, 7)
        self.tensors = {"w": self.weight.astype(np.float32), "v": self.second.astype(np.float32)}

    @staticmethod
    def rounded(values, step, low, high, mode=np.rint):
        return np.clip(mode(values / step), low, high) * step

    def quant(self, given, made, step, bits, mode="ROUND"):
        names = [f"{made}_{key}" for key in ("scale", "zero", "bits")]
        self.tensors |= dict(zip(names, map(np.float32, (step, 0, bits)), strict=True))
        return helper.make_node("Quant", [given, *names], [made], name=f"to_{made}", domain=DOMAIN,
                                signed=1, narrow=0, rounding_mode=mode)  # fmt: skip

    def save(self, path, *middle, result=8):
        first, weights, last = self.steps
        nodes = [
            self.quant("x", "xq", first, BITS),
            self.quant("w", "wq", weights, 4),
            helper.make_node("MatMul", ["xq", "wq"], ["m"], name="layer"),
            *middle,
            self.quant("v", "vq", weights, 4),
            helper.make_node("MatMul", ["y", "vq"], ["o"], name="last"),
            self.quant("o", "oq", last, result),
        ]
        tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in self.tensors.items()]
        entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])
        output = helper.make_tensor_value_info("oq", TensorProto.FLOAT, ["n", 3])
        graph = helper.make_graph(nodes, "g", [entry], [output], tensors)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets), str(path))
        return path

    def sums(self, x):
        return self.rounded(x, self.steps[0], -32, 31) @ self.weight

    def result(self, values):
        return self.rounded(values @ self.second, self.steps[2], -128, 127)


def values_of(path, x):
    low = lowered(quantize(mase_hw.trace(path)))
    reference = IntegerReference(low)
    (entry,), (output,) = reference.inputs, reference.outputs
    codes = reference([spec(entry).quantized.encode(x)])[output.name]
    return spec(output).quantized.decode(codes).reshape(len(x), -1).numpy()


@pytest.fixture
def x():
    return torch.randn(400, 6, generator=torch.Generator().manual_seed(3))


def middle(kind, *inputs, **attributes):
    return helper.make_node(kind, ["m", *inputs], ["y"], name="here", domain=DOMAIN, **attributes)


@pytest.mark.parametrize("count", [1, 3, 7, 15])
@pytest.mark.parametrize("channels", [1, 5])
def test_thresholds_count_the_bounds_that_exact_sums_reach(count, channels, x, tmp_path):
    net = Network(count)
    sums = net.sums(x.double().numpy())
    # Bounds that are sums, and others between them.
    bounds = np.sort(np.random.default_rng(count).choice(sums.reshape(-1), (channels, count)), 1)
    bounds[:, ::2] += np.random.default_rng(1).normal(size=bounds[:, ::2].shape) / 8
    net.tensors["t"] = np.sort(bounds, 1).astype(np.float32)
    path = net.save(
        tmp_path / "m.onnx", middle("MultiThreshold", "t", out_scale=0.5, out_bias=-0.5 * count)
    )
    reached = (sums[:, :, None] >= net.tensors["t"].astype(np.float64)).sum(-1)
    wanted = net.result(reached * 0.5 - 0.5 * count)
    assert len(np.unique(wanted)) > 3
    np.testing.assert_array_equal(values_of(path, x), wanted)


def test_bounds_half_way_between_codes_are_a_rounding(x, tmp_path):
    net = Network(4)
    net.tensors["t"] = ((np.arange(-16, 15) + 0.5) / 16).astype(np.float32)[None]
    path = net.save(
        tmp_path / "m.onnx", middle("MultiThreshold", "t", out_scale=1 / 16, out_bias=-1.0)
    )
    graph = mase_hw.trace(path)
    assert not any("thresholds" in str(node.target) for node in graph.nodes)
    sums = net.sums(x.double().numpy())
    wanted = net.result(net.rounded(sums, 1 / 16, -16, 15, lambda v: np.floor(v + 0.5)))
    np.testing.assert_array_equal(values_of(path, x), wanted)


def test_signs_of_what_streams_are_those_of_exact_sums(x, tmp_path):
    net = Network(2)
    net.tensors["s"] = np.float32(0.75)
    path = net.save(tmp_path / "m.onnx", middle("BipolarQuant", "s"))
    signs = np.where(net.sums(x.double().numpy()) >= 0, 0.75, -0.75)
    np.testing.assert_array_equal(values_of(path, x), net.result(signs))


@pytest.mark.parametrize("mode", ["FLOOR", "ROUND"])
def test_truncated_codes_lose_their_last_bits(mode, x, tmp_path):
    net = Network(5)
    given = {"s": 1 / 128, "z": 0, "i": 12, "t": 1 / 8, "b": 5}
    net.tensors |= {name: np.float32(value) for name, value in given.items()}
    path = net.save(tmp_path / "m.onnx", middle("Trunc", *given, rounding_mode=mode))
    work = {"FLOOR": np.floor, "ROUND": np.rint}[mode]
    wanted = net.result(net.rounded(net.sums(x.double().numpy()), 1 / 8, -16, 15, work))
    np.testing.assert_array_equal(values_of(path, x), wanted)


@pytest.mark.parametrize("mode", ["FLOOR", "ROUND"])
def test_codes_truncated_by_the_first_version_become_smaller(mode, x, tmp_path):
    net = Network(5)
    given = {"s": 1 / 128, "z": 0, "i": 12, "b": 8}
    net.tensors |= {name: np.float32(value) for name, value in given.items()}
    path = net.save(tmp_path / "m.onnx", middle("Trunc", *given, rounding_mode=mode))
    work = {"FLOOR": np.floor, "ROUND": np.rint}[mode]
    wanted = net.result(work(net.sums(x.double().numpy()) * 128 / 16) / 128)
    np.testing.assert_array_equal(values_of(path, x), wanted)


# Scale, bits of exponent and mantissa, bias, largest number: without specials, FP8, IEEE 754.
FLOATS = {
    "none": (0.25, 3, 2, 3, 28.0),
    "nan": (1.0, 4, 3, 7, 448.0),
    "ieee": (2.0, 5, 2, 15, 57344.0),
    "narrow": (1.0, 2, 1, 1, 6.0),
}


def nearest_floats(values, scale, bits, digits, bias, most):
    steps = np.floor(np.log2(np.abs(values / scale) + 1e-300)) - digits
    steps = np.exp2(np.maximum(steps, 1 - bias - digits))
    return np.clip(steps * np.rint(values / scale / steps), -most, most) * scale


@pytest.mark.parametrize("kind", FLOATS)
def test_floats_are_the_nearest_ones(kind, x, tmp_path):
    net, given = Network(7), FLOATS[kind]
    names = ["s", "e", "d", "b", "l"]
    net.tensors |= dict(zip(names, map(np.float32, given), strict=True))
    flags = {"has_inf": 0, "has_nan": 0, "has_subnormal": 1, "saturation": 1}
    path = net.save(tmp_path / "m.onnx", middle("FloatQuant", *names, **flags))
    wanted = net.result(nearest_floats(net.sums(x.double().numpy()), *given))
    np.testing.assert_array_equal(values_of(path, x), wanted)


@pytest.mark.parametrize("mode", ["CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"])
def test_constants_have_all_roundings(mode, tmp_path):
    net = Network(6, (0.0625, 0.1, 0.25))
    net.tensors["v"] = (np.arange(-8, 7).reshape(5, 3) * np.float32(0.05)).astype(np.float32)
    node = net.quant("v", "made", 0.1, 4, mode)
    weights = [node, helper.make_node("MatMul", ["m1", "made"], ["y1"], name="layer2")]
    rows = [helper.make_node("Relu", ["m"], ["m1"]), *weights,
            helper.make_node("MatMul", ["y1", "back"], ["y"], name="layer3")]  # fmt: skip
    net.tensors["back"] = np.eye(3, 5, dtype=np.float32)
    module, inputs = load_onnx(net.save(tmp_path / "m.onnx", *rows))
    values = dict(module.named_values(*inputs))
    steps = net.tensors["v"].astype(np.float64) / np.float64(np.float32(0.1))
    wanted = {
        "CEIL": np.ceil, "FLOOR": np.floor, "DOWN": np.trunc,
        "UP": lambda v: np.copysign(np.ceil(abs(v)), v),
        "HALF_UP": lambda v: np.copysign(np.floor(abs(v) + 0.5), v),
        "HALF_DOWN": lambda v: np.copysign(np.ceil(abs(v) - 0.5), v),
    }[mode](steps).clip(-8, 7)  # fmt: skip
    expected = values["m1"].double() @ torch.from_numpy(wanted * np.float64(np.float32(0.1)))
    torch.testing.assert_close(values["y1"].double(), expected, rtol=1e-5, atol=1e-6)


def test_what_is_not_kept_is_refused_by_name(tmp_path):
    def refused(message, *nodes, error=CaptureError, **tensors):
        net = Network()
        net.tensors |= {name: np.asarray(value, np.float32) for name, value in tensors.items()}
        with pytest.raises(error, match=message):
            lowered(quantize(mase_hw.trace(net.save(tmp_path / "m.onnx", *nodes))))

    given = {"s": 1.0, "e": 4.0, "d": 3.0, "b": 7.0, "l": 480.0}
    floats = middle("FloatQuant", *given)
    refused("'here' .FloatQuant.*its scale is 0.3", floats, **{**given, "s": 0.3})
    refused("ends at 300.*end at 480, those of IEEE 754 at 240", floats, **{**given, "l": 300})
    refused("exponent width is 4.5", floats, **{**given, "e": 4.5})
    refused("minifloat_denorm.*exponent_width", floats, **{**given, "d": 0})
    refused("2 different ones", floats, **{**given, "s": [0.5, 1.0]})
    refused("saturation is 0", middle("FloatQuant", *given, saturation=0), **given)
    refused("rounding mode is FLOOR", middle("FloatQuant", *given, rounding_mode="FLOOR"), **given)
    many = np.linspace(-1, 1, 40)[None] ** 3
    refused("'here'.*40 thresholds", middle("MultiThreshold", "t"), t=many)
    refused("threshold is no finite", middle("MultiThreshold", "t"), t=[[np.nan]])
    refused("out_bias is 0.3", middle("MultiThreshold", "t", out_bias=0.3), t=[[0.0]])
    refused("4 operands", middle("Trunc", "s", "z", "b"), s=1, z=0, b=8)
    refused("2 bits more", middle("Trunc", "s", "z", "b", "c"), s=1, z=0, b=4, c=6)
    trunc = middle("Trunc", "s", "z", "i", "t", "b")
    refused("zero point", trunc, s=1, z=1, i=8, t=2, b=4)
    refused("scale is nan", trunc, s=1, z=0, i=8, t=np.nan, b=4)
    refused("one for each channel", middle("BipolarQuant", "s"), s=np.ones((1, 5)))
    refused(
        "rounded by floor|are no format|no format has", trunc, error=MaseError,
        s=0.1, z=0, i=8, t=0.2, b=4,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["BipolarQuant", "MultiThreshold", "Quant"])
def test_thresholds_take_over_any_scale_before_them(kind, x, tmp_path):
    """A product and a sum for each channel, some factors below zero, behind a scale of 24 bits."""
    net, random = Network(1, (0.037, 0.0123, 0.21)), np.random.default_rng(4)
    factors, offsets = random.normal(size=5), random.normal(size=5) / 50
    net.tensors |= {"k": factors.astype(np.float32), "c": offsets.astype(np.float32)}
    given = {"BipolarQuant": ["s"], "MultiThreshold": ["t"], "Quant": ["s", "zero", "one"]}[kind]
    bounds = np.sort(random.normal(size=(5, 3)) / 10, 1)
    for name, value in {"s": 0.31, "t": bounds, "zero": 0, "one": 1}.items():
        if name in given:
            net.tensors[name] = np.float32(value)
    chain = [helper.make_node("Mul", ["m", "k"], ["p"]), helper.make_node("Add", ["p", "c"], ["q"])]
    last = helper.make_node(kind, ["q", *given], ["y"], name="here", domain=DOMAIN)
    path = net.save(tmp_path / "m.onnx", *chain, last)
    real = net.sums(x.double().numpy()) * factors + offsets
    values = np.where(real >= 0, 0.31, -0.31)
    if kind == "MultiThreshold":
        values = (real[..., None] >= bounds).sum(-1).astype(float)
    np.testing.assert_allclose(values_of(path, x), net.result(values), atol=1e-5)


def test_odd_zero_points_are_refused_where_ties_are_reached(tmp_path):
    for point, scale in ((1, 0.5), (1, 0.3), (2, 0.5)):
        net = Network()
        net.tensors |= {
            key: np.float32(item) for key, item in (("s", scale), ("z", point), ("b", 6))
        }
        path = net.save(tmp_path / "m.onnx", middle("Quant", "s", "z", "b", signed=1, narrow=0))
        if point == 1 and scale == 0.5:
            with pytest.raises(CaptureError, match=r"zero point is 1, odd.*its scale 0.5"):
                mase_hw.trace(path)
        else:
            mase_hw.trace(path)


def test_annotated_integers_are_formats(tmp_path):
    net = Network()
    path = net.save(tmp_path / "m.onnx", helper.make_node("Relu", ["m"], ["y"]))
    model = onnx.load(path)
    for name, kind in (("x", "INT4"), ("w", "FLOAT32")):
        entry = model.graph.quantization_annotation.add(tensor_name=name)
        entry.quant_parameter_tensor_names.add(key="finn_datatype", value=kind)
    onnx.save(model, path)
    (port,) = quantize(mase_hw.trace(path)).inputs
    number = spec(port).quantized
    assert (number.width, number.frac_width, number.signed) == (4, 0, True)
    entry.quant_parameter_tensor_names[0].value = "INT4.5"
    onnx.save(model, path)
    with pytest.raises(CaptureError, match=r"'w' is annotated as 'INT4.5'"):
        mase_hw.trace(path)
