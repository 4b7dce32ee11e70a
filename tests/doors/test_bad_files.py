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
from tests.doors import files


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


def functions(*bodies, opset=17):
    """Return a file whose node F0 is a function of nodes, the others functions of its own."""
    made = model([node("F0", "x", domain="my", name="call")], opsets=[helper.make_opsetid("my", 1)])
    for number, nodes in enumerate(bodies):
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("my", 1)]
        made.functions.append(helper.make_function("my", f"F{number}", ["x"], ["y"], nodes, opsets))
    return made


def row(count, kind="Relu", **attributes):
    """Return nodes one behind the other, from `x` to `y`."""
    names = ["x", *(f"v{number}" for number in range(count - 1)), "y"]
    return [
        node(kind, names[place], out=names[place + 1], name=f"n{place}", **attributes)
        for place in range(count)
    ]


def of_type(kind):
    given = tensor("w", np.ones((4, 4), np.float32))
    given.data_type = kind
    return given


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
    "stride of zero": (
        lambda: model([node("MaxPool", "x", kernel_shape=[1, 1], strides=[0, 1])],
                      shape=(1, 1, 4, 4)),
        r"'here'.*strides is \[0, 1\]; allowed",
    ),
    "function of itself": (
        lambda: functions([node("F1", "x", domain="my")], [node("F0", "x", domain="my")]),
        "function 'F0' calls itself",
    ),
    "functions deep": (
        lambda: functions(*([node(f"F{n + 1}", "x", domain="my")] for n in range(2000))),
        "calls others more than 100 deep",
    ),
    "functions of functions": (
        lambda: functions(*(row(2, f"F{n + 1}", domain="my") for n in range(24)), row(2)),
        "has 33554432 nodes, with those of its functions; allowed",
    ),
    "nodes in a row": (lambda: model(row(3000)), "computes 3000 nodes of its inputs; allowed"),
    "input of many elements": (
        lambda: model([node("Relu", "x")], shape=(1, 1 << 28)), "input 'x' has 268435456 elements"
    ),
    "unknown type": (lambda: model([node("MatMul", "x", "w")], [of_type(99)]), "'w' is of type 99"),
    "constant elsewhere": (
        lambda: model([node("Constant", out="w", name="c", value=outside("w.bin")),
                       node("MatMul", "x", "w")]),
        "the data of tensor 'w' of node 'c' lie in another file",
    ),
    "constant of a function elsewhere": (
        lambda: functions([node("Constant", out="w", name="c", value=outside("w.bin")),
                           node("MatMul", "x", "w")]),
        "the data of tensor 'w' of node 'c' lie in another file",
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
def test_a_bad_file_is_refused_in_one_message(name, tmp_path, monkeypatch):
    make, message = BAD[name]
    path = tmp_path / "m.onnx"
    # Nothing is taken from the folder in which somebody works.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.bin").write_bytes(bytes(64))
    path.write_bytes(make().SerializeToString())
    with pytest.raises(MaseError, match=message) as caught:
        mase_hw.trace(path)
    assert "\n" not in str(caught.value).strip()


@pytest.mark.parametrize(
    "where", ["../secret.bin", "/etc/hostname", "link.bin", "gone.bin", "a\0b", ""]
)
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


def test_an_input_that_is_rounded_in_two_ways_is_refused(tmp_path):
    _, tensors = quantiser()
    nodes = [
        node("QuantizeLinear", "x", "s", "z", out="q", name="quant"),
        node("DequantizeLinear", "q", "s", "z", out="a", name="inverse"),
        node("QuantizeLinear", "x", "t", "z", out="r", name="other"),
        node("DequantizeLinear", "r", "t", "z", out="b", name="inverse2"),
        node("Add", "a", "b", name="sum"),
    ]
    path = tmp_path / "m.onnx"
    onnx.save(model(nodes, [*tensors, tensor("t", np.float32(0.07))]), str(path))
    with pytest.raises(MaseError, match=r"input .* has several formats: quant.* rounds it"):
        lowered(quantize(mase_hw.trace(path)))


def test_a_file_without_the_shape_of_its_input_takes_examples(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model([node("Relu", "x")], shape=None), path)
    with pytest.raises(MaseError, match="does not say the shape of input 'x'; give example inputs"):
        mase_hw.trace(path)
    x = torch.randn(3, 4)
    assert torch.equal(mase_hw.trace(path, x)(x), x.relu())


def test_a_comparison_says_what_is_wrong(tmp_path):
    path, x = files.wide(tmp_path / "m.onnx"), torch.randn(6, 8) / 100
    mg = quantize(mase_hw.trace(path, x))
    assert mase_hw.compare(path, mg, x.double().numpy()).worst == 0
    (tmp_path / "text.onnx").write_text("text")
    for file, given, message in (
        (tmp_path / "none.onnx", x, "none.onnx does not exist"),
        (tmp_path / "text.onnx", x, "cannot be read as an ONNX file"),
        (path, torch.randn(8, 5), r"shape \(8, 5\); expected \(N, 8\)"),
        (path, x[:0], "1 or more"),
        (path, [], "0 inputs are given; allowed: one array"),
        (path, [x, x], "2 inputs are given"),
        (path, "data", "inputs are str"),
        (path, ["data"], "no array of numbers"),
    ):
        with pytest.raises(MaseError, match=message):
            mase_hw.compare(file, mg, given)
