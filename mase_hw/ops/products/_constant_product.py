"""Products of a stream and a constant matrix, written as a linear layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import prod

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call
from mase_hw.ops._composite import Composite


class ConstantProduct(Composite):
    """A product that is a linear layer where one of its operands is constant."""

    weighs = True

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        return None if self.refusals(call) else [self.layer(call, operands)]

    def problems(self, call: Call) -> list[str]:
        return self.refusals(call) or super().problems(call)

    @abstractmethod
    def layer(self, call: Call, operands: Mapping[str, Tensor]) -> Tensor:
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
    if prod(shape[:-2]) > 1 and _heads(call) is None:
        return [
            f"its constant of shape {list(shape)} has a matrix for each inference, or adds "
            "dimensions to them: write a product for each matrix and stack the results"
        ]
    other = call.operands[_other(constant)].shape
    if len(shape) > max(2, len(other)):
        return [f"its constant of shape {list(shape)} adds dimensions: squeeze it before"]
    return []


def matrix_product(call: Call, operands: Mapping[str, Tensor], bias: object = None) -> Tensor:
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
    heads = _heads(call)
    if heads:
        return stacked(constant, data, shape, heads, left=name == "data_in_0")
    is_vector = len(shape) == 1
    if is_vector:
        constant = aten.reshape.default(constant, [1, shape[0]])
    elif len(shape) > 2:
        constant = aten.reshape.default(constant, list(shape[-2:]))
    if name == "data_in_1" and not is_vector:
        constant = aten.t.default(constant)
    turned = name == "data_in_0" and rank > 1
    if turned:
        data = aten.transpose.int(data, -2, -1)
    result = aten.linear.default(data, constant, bias)
    if is_vector:
        return aten.squeeze.dim(result, -1)
    return aten.transpose.int(result, -2, -1) if turned else result


_PAIR = ("data_in_0", "data_in_1")


def _other(name: str) -> str:
    return "data_in_1" if name == "data_in_0" else "data_in_0"


# A dimension of a constant that counts matrices, that of the stream which meets it, and its size
# there: 1 where the stream has one matrix for all.
Heads = Sequence[tuple[int, int, int]]


def _heads(call: Call) -> Heads | None:
    """Return the dimensions along which a constant has several matrices; None for the batch."""
    name = _constant(call)
    assert name is not None
    shape, data = call.operands[name].shape, call.operands[_other(name)].shape
    behind = len(data) - len(shape)
    counted = [place for place in range(len(shape) - 2) if shape[place] > 1]
    if any(place + behind <= 0 for place in counted):
        return None
    return [(place, place + behind, data[place + behind]) for place in counted]


def stacked(
    constant: Tensor, data: Tensor, shape: Sequence[int], heads: Heads, *, left: bool
) -> Tensor:
    """Return a linear layer for each matrix of a constant, and their results side by side.

    Args:
        constant: what stands for the constant.
        data: what stands for the stream.
        shape: of the constant.
        heads: the dimensions along which it has several matrices.
        left: whether the constant is the left factor.
    """
    if not heads:
        weight = aten.reshape.default(constant, list(shape[-2:]))
        if not left:
            return aten.linear.default(data, aten.t.default(weight))
        turned = aten.linear.default(aten.transpose.int(data, -2, -1), weight)
        return aten.transpose.int(turned, -2, -1)
    (place, axis, size), *rest = heads
    parts = []
    for number in range(shape[place]):
        matrix = aten.slice.Tensor(constant, place, number, number + 1)
        part = data if size == 1 else aten.slice.Tensor(data, axis, number, number + 1)
        parts.append(stacked(matrix, part, shape, rest, left=left))
    return aten.cat.default(parts, axis)


def is_right(call: Call) -> bool:
    """True if the right operand is the constant one."""
    return _constant(call) == "data_in_1"


def _constant(call: Call) -> str | None:
    constants = [name for name in _PAIR if name in call.constants]
    return constants[0] if len(constants) == 1 else None
