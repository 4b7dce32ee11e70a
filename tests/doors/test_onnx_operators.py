"""Every ONNX operator that is known, on the cases that the onnx package itself generates."""

from __future__ import annotations

import warnings
from collections import defaultdict
from functools import cache

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from mase_hw.errors import CaptureError
from mase_hw.importers.onnx import OnnxModule
from mase_hw.importers.onnx._families import functions
from mase_hw.importers.onnx._read import OLDEST_OPSET, read_model
from tests._readme import ROOT

# What a case asks beyond inference on real numbers and whole ones, by words of its name or message.
NOT_CLAIMED = (
    "float16", "bfloat16", "FLOAT16", "float8", "FLOAT8", "float4", "FLOAT4", "FLOAT16", "training",
    "int2", "INT2", "uint2", "string", "_mask", "with_argmax", "blocked", "complex",
    # Which of equal elements comes first is not said of the torch operator.
    "top_k_same", "_sequence", "STRING", "optional",
)  # fmt: skip
DTYPES = {np.dtype(name) for name in ("float32", "float64", "int64", "int32", "bool")}
# Codes of integers are held as reals: their tests are in test_qdq and test_sums.
CODES = {
    "ConvInteger",
    "MatMulInteger",
    "QuantizeLinear",
    "DequantizeLinear",
    "QLinearConv",
    "QLinearMatMul",
    "DynamicQuantizeLinear",
}
# Operators whose operands are all settings, or all but the first.
MADE, SET = (
    {"BlackmanWindow", "Constant", "ConstantOfShape", "HammingWindow", "HannWindow", "Range"},
    {"Resize", "Upsample"},
)


@cache
def all_cases():
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases("")


@cache
def cases():
    known = {kind for domain, kind in functions() if domain == ""}
    by_type = defaultdict(list)
    for case in all_cases():
        kinds = {node.op_type for node in case.model.graph.node}
        (kind,) = kinds if len(kinds) == 1 else (None,)
        if kind in known - CODES and not any(word in case.name for word in NOT_CLAIMED):
            by_type[kind].append(case)
    return by_type


def array_of(item):
    return numpy_helper.to_array(item) if hasattr(item, "data_type") else np.asarray(item)


def run(case, kind, folder):
    (inputs, outputs), *_ = case.data_sets
    path, model = folder / f"{case.name}.onnx", onnx.ModelProto()
    model.CopyFrom(case.model)
    if not all(item.type.HasField("tensor_type") for item in model.graph.input):
        onnx.save(model, str(path))
        OnnxModule(read_model(path), str(path))
    arrays = [array_of(item) for item in inputs]
    streams = []
    # What only settings are computed of is constant: shapes, axes, bounds.
    for place, (info, array) in enumerate(zip(model.graph.input, arrays, strict=True)):
        weight = array.dtype.kind == "f" and array.size > 1 and kind not in SET
        if kind not in MADE and (place == 0 or weight):
            streams.append(array)
        else:
            model.graph.initializer.append(numpy_helper.from_array(array, info.name))
    if any(array.dtype not in DTYPES for array in streams):
        return None
    for item in model.opset_import:
        item.version = max(item.version, OLDEST_OPSET)
    onnx.save(model, str(path))
    tensors = [torch.from_numpy(np.array(array)) for array in streams]
    module = OnnxModule(read_model(path), str(path))
    module.check_sizes(tensors)
    with torch.no_grad():
        found = module(*tensors)
    return found if isinstance(found, tuple) else (found,), outputs


def kinds():
    return sorted(kind for domain, kind in functions() if domain == "" and kind not in CODES)


def is_right(found, expected, name):
    """Fail where results differ from those of a case."""
    for left, right in zip(found, map(array_of, expected), strict=False):
        assert tuple(left.shape) == right.shape, name
        if right.dtype.kind in "fiub":
            np.testing.assert_allclose(
                left.detach().double().numpy(), right.astype(np.float64), rtol=1e-3, atol=1e-5,
                err_msg=name,
            )  # fmt: skip


def agreed(kind, folder):
    """Return how many cases of an operator agree, and what is refused; fail where one differs."""
    count, refused = 0, []
    for case in cases()[kind]:
        try:
            result = run(case, kind, folder)
        except CaptureError as error:
            refused.append((case.name, str(error)))
            continue
        if result is None:
            continue
        is_right(*result, case.name)
        count += 1
    return count, refused


@pytest.mark.parametrize("kind", kinds())
def test_an_operator_agrees_with_the_cases_of_onnx(kind, tmp_path):
    count, refused = agreed(kind, tmp_path)
    assert count > 0, refused


@pytest.mark.full
def test_every_case_of_onnx_is_right_or_refused_by_name(tmp_path):
    """The page has their numbers. Codes are compared elsewhere, and ties of TopK are not said."""
    right, refused = 0, 0
    for case in all_cases():
        kinds_of_case = {node.op_type for node in case.model.graph.node}
        kind = kinds_of_case.pop() if len(kinds_of_case) == 1 else ""
        if not case.data_sets or kind == "QuantizeLinear" or "top_k_same" in case.name:
            continue
        try:
            result = run(case, kind, tmp_path)
        except CaptureError as error:
            assert "node" in str(error) or "tensor" in str(error) or "input" in str(error)
            refused += 1
            continue
        if result is not None:
            is_right(*result, case.name)
            right += 1
    assert (
        f"{right:,} of {right + refused:,} cases"
        in (ROOT / "mase_hw" / "importers" / "README.md").read_text()
    )
