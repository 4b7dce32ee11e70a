"""Products of a stream and a constant matrix, written as a linear layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import torch

from mase_hw.ops._base import Call
from mase_hw.ops._composite import Composite

_aten = torch.ops.aten


class ConstantProduct(Composite):
    """A product that is a linear layer where one of its operands is constant."""

    weighs: ClassVar[bool] = True

    def expression(self, call: Call, operands: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the linear layer; None where there is none."""
        return None if self.refusals(call) else [self.layer(call, operands)]

    def problems(self, call: Call) -> list[str]:
        """Return why it is no linear layer."""
        return self.refusals(call) or super().problems(call)

    @abstractmethod
    def layer(self, call: Call, operands: Mapping[str, Any]) -> Any:
        """Return the product written with a linear layer."""

    @abstractmethod
    def refusals(self, call: Call) -> list[str]:
        """Return why the product cannot be written so, with the fix; empty when it can."""


def matrix_refusals(call: Call) -> list[str]:
    """Return why `data_in_0 @ data_in_1` is no linear layer; empty when it is one."""
    constant = _constant(call)
    if constant is None:
        return [
            "both factors are computed by the model: make one of them constant, or multiply them "
            "with torch.matmul, which has hardware for two streams"
        ]
    shape = call.operands[constant].shape
    matrices = prod(shape[:-2])
    if matrices > 1 and _heads(call) is None:
        return [
            f"its constant holds {matrices} matrices, and a linear layer has one: write a product "
            "for each and stack the results"
        ]
    other = call.operands[_other(constant)].shape
    if len(shape) > max(2, len(other)):
        return [f"its constant of shape {list(shape)} adds dimensions: squeeze it before"]
    return []


def matrix_product(call: Call, operands: Mapping[str, Any], bias: Any = None) -> Any:
    """Return `data_in_0 @ data_in_1 (+ bias)` as a linear layer.

    A constant on the left meets the columns of the stream: `W x = (x^T W^T)^T`. A bias is legal
    with the constant on the right, and has an element for each of its columns.
    """
    name = _constant(call)
    assert name is not None
    streams = {key: spec for key, spec in call.operands.items() if key.startswith("data_in_")}
    (rank,) = (len(spec.shape) for key, spec in streams.items() if key != name and key in _PAIR)
    constant, data = operands[name], operands[_other(name)]
    shape = call.operands[name].shape
    axis = _heads(call)
    if axis is not None:
        return _stacked(constant, data, shape, axis, left=name == "data_in_0")
    is_vector = len(shape) == 1
    if is_vector:
        constant = _aten.reshape.default(constant, [1, shape[0]])
    elif len(shape) > 2:
        constant = _aten.reshape.default(constant, list(shape[-2:]))
    if name == "data_in_1" and not is_vector:
        constant = _aten.t.default(constant)
    turned = name == "data_in_0" and rank > 1
    if turned:
        data = _aten.transpose.int(data, -2, -1)
    result = _aten.linear.default(data, constant, bias)
    if is_vector:
        return _aten.squeeze.dim(result, -1)
    return _aten.transpose.int(result, -2, -1) if turned else result


_PAIR = ("data_in_0", "data_in_1")


def _other(name: str) -> str:
    return "data_in_1" if name == "data_in_0" else "data_in_0"


def _heads(call: Call) -> int | None:
    """Return the dimension of the stream along which its matrices meet one of the constant each.

    None where the constant has one matrix, or several dimensions of them.
    """
    name = _constant(call)
    assert name is not None
    shape, data = call.operands[name].shape, call.operands[_other(name)].shape
    found = [place for place in range(len(shape) - 2) if shape[place] > 1]
    if len(found) != 1 or len(shape) > len(data):
        return None
    axis = found[0] + len(data) - len(shape)
    return axis if axis > 0 and data[axis] == shape[found[0]] else None


def _stacked(constant: Any, data: Any, shape: Sequence[int], axis: int, *, left: bool) -> Any:
    """Return a linear layer for each matrix of a constant, and their results side by side.

    Args:
        constant: what stands for the constant.
        data: what stands for the stream.
        shape: of the constant.
        axis: dimension of the stream along which its matrices lie.
        left: whether the constant is the left factor.
    """
    parts = []
    matrices = _aten.reshape.default(constant, [-1, *shape[-2:]])
    for number in range(prod(shape[:-2])):
        weight = _aten.select.int(matrices, 0, number)
        part = _aten.slice.Tensor(data, axis, number, number + 1)
        if left:
            part = _aten.linear.default(_aten.transpose.int(part, -2, -1), weight)
            parts.append(_aten.transpose.int(part, -2, -1))
        else:
            parts.append(_aten.linear.default(part, _aten.t.default(weight)))
    return _aten.cat.default(parts, axis)


def is_right(call: Call) -> bool:
    """Return whether the right operand is the constant one."""
    return _constant(call) == "data_in_1"


def _constant(call: Call) -> str | None:
    found = [name for name in _PAIR if name in call.constants]
    return found[0] if len(found) == 1 else None
