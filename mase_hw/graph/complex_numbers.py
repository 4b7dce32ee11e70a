"""Complex numbers written as pairs of real ones, with their Fourier transforms."""

from __future__ import annotations

import math

from torch.fx import GraphModule, Node

from mase_hw._aten import aten
from mase_hw._kinds import Argument
from mase_hw.graph._complex_parts import Pair, Part, Rule, Splitter, UnknownError
from mase_hw.graph._fourier import SHIFTS, TRANSFORMS
from mase_hw.graph.calls import aten_arguments


def split_complex(module: GraphModule) -> None:
    """Rewrite, in place, complex numbers and Fourier transforms of an exported graph.

    Where one of them is not known, nothing is: what is left says later where it stands.
    """
    splitter = Splitter(module, _RULES, {*TRANSFORMS, *SHIFTS})
    if not any(map(splitter.concerns, module.graph.nodes)):
        return
    try:
        splitter.split()
    except UnknownError:
        return


def _given(node: Node) -> tuple[Argument, ...]:
    return tuple(aten_arguments(node).values())


def _add(splitter: Splitter, node: Node, sign: int = 1) -> Pair:
    left, right, *rest = _given(node)
    by = sign * (rest[0] if rest else 1)
    left, right = splitter.pair(left), splitter.pair(right)
    return Pair(
        splitter.plus(left.real, splitter.times(by, right.real)),
        splitter.plus(left.imaginary, splitter.times(by, right.imaginary)),
    )


def _subtract(splitter: Splitter, node: Node) -> Pair:
    return _add(splitter, node, -1)


def _multiply(splitter: Splitter, node: Node) -> Pair:
    left, right = map(splitter.pair, _given(node)[:2])
    return splitter.product(left, right, splitter.times)


def _divide(splitter: Splitter, node: Node) -> Pair:
    left, right = map(splitter.pair, _given(node)[:2])
    return _over(splitter, left, right)


def _over(splitter: Splitter, left: Pair, right: Pair) -> Pair:
    """Return `left * conj(right) / |right|**2`."""
    if right.imaginary == 0.0:
        below, above = right.real, left
    else:
        turned = Pair(right.real, splitter.times(-1.0, right.imaginary))
        below, above = splitter.power(right), splitter.product(left, turned, splitter.times)

    def over(part: Part) -> Part:
        if part == 0.0:
            return 0.0
        if isinstance(part, Node):
            return splitter.call(aten.div.Tensor, part, below)
        if isinstance(below, Node):
            return splitter.times(part, splitter.call(aten.reciprocal.default, below))
        return part / below

    return Pair(over(above.real), over(above.imaginary))


def _reciprocal(splitter: Splitter, node: Node) -> Pair:
    return _over(splitter, Pair(1.0), splitter.pair(node.args[0]))


def _matrix(splitter: Splitter, node: Node) -> Pair:
    def times(left: Part, right: Part) -> Part:
        if left == 0.0 or right == 0.0:
            return 0.0
        return splitter.call(node.target, left, right)

    left, right = map(splitter.pair, _given(node)[:2])
    return splitter.product(left, right, times)


def _einsum(splitter: Splitter, node: Node) -> Pair:
    equation, operands = _given(node)[:2]
    if len(operands) == 1:
        return splitter.each(node)
    if len(operands) != 2:
        raise UnknownError

    def times(left: Part, right: Part) -> Part:
        if left == 0.0 or right == 0.0:
            return 0.0
        return splitter.call(aten.einsum.default, equation, [left, right])

    left, right = map(splitter.pair, operands)
    return splitter.product(left, right, times)


def _square(splitter: Splitter, node: Node) -> Pair:
    value = splitter.pair(node.args[0])
    if len(node.args) > 1 and node.args[1] != 2:
        raise UnknownError
    return splitter.product(value, value, splitter.times)


def _conjugate(splitter: Splitter, node: Node) -> Pair:
    value = splitter.pair(node.args[0])
    return Pair(value.real, splitter.times(-1.0, value.imaginary))


def _first(splitter: Splitter, node: Node) -> Part:
    return splitter.pair(node.args[0]).real


def _second(splitter: Splitter, node: Node) -> Part:
    return splitter.pair(node.args[0]).imaginary


def _as_complex(splitter: Splitter, node: Node) -> Pair:
    return Pair(*(splitter.call(aten.select.int, node.args[0], -1, place) for place in (0, 1)))


def _as_real(splitter: Splitter, node: Node) -> Node:
    value = splitter.pair(node.args[0])
    parts = [splitter.filled(value, part) for part in (value.real, value.imaginary)]
    return splitter.call(aten.stack.default, parts, -1)


def _complex(splitter: Splitter, node: Node) -> Pair:
    return Pair(*_given(node)[:2])


def _polar(splitter: Splitter, node: Node) -> Pair:
    size, angle = _given(node)[:2]
    return _turned(splitter, size, angle)


def _turned(splitter: Splitter, size: Part, angle: Argument) -> Pair:
    return Pair(
        splitter.times(size, splitter.call(aten.cos.default, angle)),
        splitter.times(size, splitter.call(aten.sin.default, angle)),
    )


def _exponential(splitter: Splitter, node: Node) -> Pair:
    value = splitter.pair(node.args[0])
    size: Part
    if isinstance(value.real, Node):
        size = splitter.call(aten.exp.default, value.real)
    else:
        size = math.exp(value.real)
    return _turned(splitter, size, value.imaginary)


def _size(splitter: Splitter, node: Node) -> Part:
    value = splitter.pair(node.args[0])
    if value.imaginary == 0.0:
        return splitter.call(aten.abs.default, value.real)
    if value.real == 0.0:
        return splitter.call(aten.abs.default, value.imaginary)
    return splitter.call(aten.hypot.default, value.real, value.imaginary)


def _angle(splitter: Splitter, node: Node) -> Part:
    value = splitter.pair(node.args[0])
    if not isinstance(value.real, Node) or not isinstance(value.imaginary, Node):
        raise UnknownError
    return splitter.call(aten.atan2.default, value.imaginary, value.real)


def _each(splitter: Splitter, node: Node) -> Pair:
    return splitter.each(node)


# What does to each part what it does to a real tensor.
_LINEAR = (
    aten.reshape.default,
    aten.view.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
    aten.transpose.int,
    aten.permute.default,
    aten.movedim.intlist,
    aten.movedim.int,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.default,
    aten.expand.default,
    aten.repeat.default,
    aten.slice.Tensor,
    aten.narrow.default,
    aten.select.int,
    aten.index.Tensor,
    aten.index_select.default,
    aten.cat.default,
    aten.stack.default,
    aten.clone.default,
    aten.contiguous.default,
    aten.alias.default,
    aten.detach.default,
    aten.roll.default,
    aten.flip.default,
    aten.neg.default,
    aten.sum.dim_IntList,
    aten.sum.default,
    aten.mean.dim,
    aten.cumsum.default,
    aten.mT.default,
    aten.t.default,
)
_RULES: dict[object, Rule] = {
    **TRANSFORMS,
    **SHIFTS,
    **dict.fromkeys(_LINEAR, _each),
    aten.add.Tensor: _add,
    aten.sub.Tensor: _subtract,
    aten.mul.Tensor: _multiply,
    aten.div.Tensor: _divide,
    aten.reciprocal.default: _reciprocal,
    aten.matmul.default: _matrix,
    aten.bmm.default: _matrix,
    aten.einsum.default: _einsum,
    aten.square.default: _square,
    aten.pow.Tensor_Scalar: _square,
    aten._conj.default: _conjugate,
    aten._conj_physical.default: _conjugate,
    aten.conj_physical.default: _conjugate,
    aten.resolve_conj.default: _each,
    aten.real.default: _first,
    aten.imag.default: _second,
    aten.view_as_complex.default: _as_complex,
    aten.view_as_real.default: _as_real,
    aten.complex.default: _complex,
    aten.polar.default: _polar,
    aten.exp.default: _exponential,
    aten.abs.default: _size,
    aten.angle.default: _angle,
}
