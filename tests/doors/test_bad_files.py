"""Damaged, hostile and unknown files: one message that says where, and nothing is run or read."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.errors import MaseError


def model(nodes, tensors=(), shape=(1, 4), kind=TensorProto.FLOAT, opset=17, outputs=("y",), **kw):
    entry = helper.make_tensor_value_info("x", kind, list(shape) if shape is not None else None)
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in outputs]
    graph = helper.make_graph(list(nodes), "g", [entry], results, list(tensors))
    opsets = [helper.make_opsetid("", opset), *kw.get("opsets", ())]
    return helper.make_model(graph, opset_imports=opsets)


def node(kind, *inputs, out="y", name="here", **attributes):
    return helper.make_node(kind, list(inputs), [out], name=name, **attributes)


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def outside(path):
    given = tensor("w", np.ones((4, 4), np.float32))
    given.ClearField("raw_data")
    given.data_location = TensorProto.EXTERNAL
    for key, value in (("location", path), ("offset", "0"), ("length", "64")):
        entry = given.external_data.add()
        entry.key, entry.value = key, value
    return given


def quantiser(scale=0.1, point=0, dtype=np.int8):
    return (
        node("QuantizeLinear", "x", "s", "z", out="q", name="quant"),
        node("DequantizeLinear", "q", "s", "z", name="inverse"),
    ), (tensor("s", np.float32(scale)), tensor("z", np.array(point, dtype)))


def branch():
    inner = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["a"])], "b", [],
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [None])],
    )  # fmt: skip
    return node("If", "c", then_branch=inner, else_branch=inner)


HALF = tensor("w", np.ones((4, 4), np.float16))
TEXT = helper.make_tensor("w", TensorProto.STRING, [1], [b"no"])
LARGE = tensor("n", np.array([1 << 20, 1 << 20], np.int64))
BAD = {
    "cycle": (
        lambda: model([node("Relu", "b", out="a"), node("Relu", "a", out="b", name="two"),
                       node("Add", "x", "b", name="three")]),
        "cycle",
    ),
    "two producers": (
        lambda: model([node("Relu", "x"), node("Abs", "x", name="again")]),
        "'again' makes 'y', which is there already",
    ),
    "nothing makes": (lambda: model([node("Add", "x", "ghost")]), "'here' reads 'ghost'"),
    "opset too new": (lambda: model([node("Relu", "x")], opset=99), "opset 99"),
    "opset too old": (lambda: model([node("Relu", "x")], opset=3), "opset 3"),
    "custom domain": (
        lambda: model([node("Magic", "x", domain="com.acme")],
                      opsets=[helper.make_opsetid("com.acme", 2)]),
        "'here' .*com.acme, opset 2",
    ),
    "unknown operator": (lambda: model([node("NonZero", "x")]), "'here' .NonZero.*ai.onnx"),
    "subgraph": (
        lambda: model([branch()], [tensor("c", np.array(True))]), "'here' .If.*no such operator"
    ),
    "half precision": (lambda: model([node("MatMul", "x", "w")], [HALF]), "'w' is of float16"),
    "strings": (lambda: model([node("MatMul", "x", "w")], [TEXT]), "'w' is of string"),
    "no shape": (lambda: model([node("Relu", "x")], shape=(1, None)), "dimension 1 of input 'x'"),
    "huge input": (lambda: model([node("Relu", "x")], shape=(1, 1 << 40)), "elements"),
    "huge result": (
        lambda: model([node("ConstantOfShape", "n", out="c"), node("Add", "x", "c", name="two")],
                      [LARGE]),
        "elements; allowed",
    ),
    "huge expansion": (
        lambda: model([node("Expand", "x", "n")], [tensor("n", np.array([1 << 30, 4]))]),
        "'here' .*elements",
    ),
    "shapes do not fit": (
        lambda: model([node("MatMul", "x", "w")], [tensor("w", np.ones((3, 2), np.float32))]),
        "'here' .*does not fit",
    ),
    "scale of zero": (lambda: model(*quantiser(0.0)), "'quant' .*scale is 0.0"),
    "scale of no number": (lambda: model(*quantiser(float("nan"))), "'quant' .*scale is nan"),
    "codes of another type": (
        lambda: model(*quantiser(0.1, 0, np.int64)), "y_zero_point|int64"
    ),
    "no input": (
        lambda: helper.make_model(helper.make_graph(
            [node("Relu", "w")], "g", [],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])],
            [tensor("w", np.ones(3, np.float32))])),
        "takes no input",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_message(name, tmp_path):
    make, message = BAD[name]
    path = tmp_path / "m.onnx"
    path.write_bytes(make().SerializeToString())
    with pytest.raises(MaseError, match=message) as caught:
        mase_hw.trace(path)
    assert "\n" not in str(caught.value).strip()


@pytest.mark.parametrize("where", ["../secret.bin", "/etc/hostname", "link.bin", "gone.bin", ""])
def test_data_outside_the_folder_is_not_read(where, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    path = folder / "m.onnx"
    path.write_bytes(model([node("MatMul", "x", "w")], [outside(where)]).SerializeToString())
    with pytest.raises(MaseError, match="'w' lies"):
        mase_hw.trace(path)


def test_data_beside_the_file_is_read(tmp_path):
    array = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    (tmp_path / "w.bin").write_bytes(array.tobytes())
    path = tmp_path / "m.onnx"
    made = model([node("MatMul", "x", "w")], [outside("w.bin")], outputs=("y",))
    path.write_bytes(made.SerializeToString())
    x = torch.randn(5, 4)
    found = mase_hw.trace(path)(x)
    torch.testing.assert_close(found, x @ torch.from_numpy(array))
    (tmp_path / "w.bin").write_bytes(bytes(10))
    with pytest.raises(MaseError, match="64 bytes"):
        mase_hw.trace(path)


@pytest.mark.parametrize("size", [0, 1, 50, 120])
def test_a_truncated_file_is_refused(size, tmp_path):
    whole = model([node("MatMul", "x", "w")], [tensor("w", np.ones((4, 4), np.float32))])
    path = tmp_path / "m.onnx"
    path.write_bytes(whole.SerializeToString()[:size])
    with pytest.raises(MaseError):
        mase_hw.trace(path)


def test_other_files_are_refused(tmp_path):
    for name, text in (("m.onnx", "not a model"), ("m.txt", "x")):
        (tmp_path / name).write_text(text)
        with pytest.raises(MaseError):
            mase_hw.trace(tmp_path / name)
    with pytest.raises(MaseError, match="does not exist"):
        mase_hw.trace(tmp_path / "gone.onnx")


def test_a_result_that_is_rounded_in_two_ways_is_refused(tmp_path):
    (first, inverse), tensors = quantiser()
    nodes = [
        node("Gemm", "x", "w", out="g", name="layer", transB=1),
        node("QuantizeLinear", "g", "s", "z", out="q", name="quant"),
        node("DequantizeLinear", "q", "s", "z", out="a", name="inverse"),
        node("QuantizeLinear", "g", "t", "z", out="r", name="other"),
        node("DequantizeLinear", "r", "t", "z", out="b", name="inverse2"),
        node("Add", "a", "b", name="sum"),
    ]
    del first, inverse
    weight = tensor("w", np.ones((3, 4), np.float32))
    path = tmp_path / "m.onnx"
    onnx.save(model(nodes, [*tensors, weight, tensor("t", np.float32(0.07))]), str(path))
    with pytest.raises(MaseError, match=r"layer.*is rounded to .* and to"):
        lowered(quantize(mase_hw.trace(path)))


def test_a_file_without_the_shape_of_its_input_takes_examples(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model([node("Relu", "x")], shape=None), path)
    with pytest.raises(MaseError, match="does not say the shape of input 'x'; give example inputs"):
        mase_hw.trace(path)
    x = torch.randn(3, 4)
    assert torch.equal(mase_hw.trace(path, x)(x), x.relu())
