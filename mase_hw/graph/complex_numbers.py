"""Complex numbers written as pairs of real ones, with their Fourier transforms.

What is known to be zero, such as the imaginary part of a real tensor, is not computed.
`exp(2 pi i k t / n)` is `cos + i sin`, so that a Fourier transform of known length is a product of
each part with constant matrices (the definition of `torch.fft`); one over the batch is none of an
inference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from mase_hw._aten import aten
from mase_hw._kinds import Argument
from mase_hw.graph._rewriter import Constants, Rewriter, is_dynamic
from mase_hw.graph.nodes import aten_arguments
from mase_hw.graph.rebuild import get_tensor
from mase_hw.ops import torch_target

# A real tensor, or a number.
Part = Node | float


@dataclass(frozen=True)
class Pair:
    """A complex tensor, or number.

    Attributes:
        real: its real part.
        imaginary: its imaginary part, 0.0 where that is known.
    """

    real: Part
    imaginary: Part = 0.0


class UnknownError(Exception):
    """A complex number is computed with in a way that is not known here."""


def is_complex(node: Node) -> bool:
    """True if a node's result is complex."""
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.is_complex()


class Splitter(Rewriter):
    """Puts pairs in place of complex numbers."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self._pairs: dict[Node, Pair] = {}

    def split(self) -> None:
        """Put pairs in place of all complex nodes."""
        replaced: dict[Node, Node] = {}
        for node in list(self.graph.nodes):
            if not self.concerns(node) and self._pairs.keys().isdisjoint(node.all_input_nodes):
                continue
            with self.before(node):
                result = self._rewritten(node)
                if is_complex(node):
                    self._pairs[node] = result if isinstance(result, Pair) else Pair(result)
                else:
                    replaced[node] = self._tensor(result, node)
        for node, replacement in replaced.items():
            node.replace_all_uses_with(replacement)
        for node in reversed([*self._pairs, *replaced]):
            if not node.users and node.op == "call_function":
                self.graph.erase_node(node)

    def concerns(self, node: Node) -> bool:
        """True if a node is complex, or has a rule of real numbers."""
        return node.target in _ALWAYS or is_complex(node)

    def _rewritten(self, node: Node) -> Pair | Part:
        if node.op == "get_attr":
            return self._constants(node)
        rule = _RULES.get(node.target) if node.op == "call_function" else None
        if rule is None:
            raise UnknownError
        return rule(self, node)

    def _constants(self, node: Node) -> Pair:
        value, name = get_tensor(self.module, str(node.target)), str(node.target)
        parts = {"real": value.detach().real, "imag": value.detach().imag}
        if isinstance(value, nn.Parameter):
            parts = {key: nn.Parameter(part.clone()) for key, part in parts.items()}
        name = name.replace(".", "_")
        return Pair(*(self.constant(f"{name}_{key}", part) for key, part in parts.items()))

    def _tensor(self, part: Pair | Part, node: Node) -> Node:
        if isinstance(part, Pair):
            raise UnknownError
        return self.filled(self.pair(node.all_input_nodes[0]), part)

    def filled(self, value: Pair, part: Part) -> Node:
        """Return a part of a pair as a tensor, also where it is known to be a number."""
        if isinstance(part, Node):
            return part
        like = value.real if isinstance(value.real, Node) else value.imaginary
        return self.call(aten.full_like.default, like, part)

    def known(self, node: Node) -> Tensor | None:
        """Return a constant; None of what is computed."""
        return Constants(self.module).value(node)

    def pair(self, value: Argument) -> Pair:
        """Return an argument as a pair."""
        if isinstance(value, complex):
            return Pair(value.real, value.imag)
        return self._pairs.get(value, Pair(value))

    def plus(self, left: Part, right: Part, sign: int = 1) -> Part:
        """Return a sum, or a difference."""
        if not isinstance(left, Node) and not isinstance(right, Node):
            return left + sign * right
        if right == 0.0:
            return left
        if left == 0.0:
            return right if sign > 0 else self.times(-1.0, right)
        if not isinstance(left, Node):
            return self.plus(self.times(sign, right), left)
        return self.call(aten.add.Tensor if sign > 0 else aten.sub.Tensor, left, right)

    def times(self, left: Part, right: Part) -> Part:
        """Return a product, of which factors of one and zero are left out."""
        if not isinstance(left, Node) and not isinstance(right, Node):
            return left * right
        if not isinstance(left, Node):
            left, right = right, left
        if right == 1.0 or right == 0.0:
            return left if right else 0.0
        return self.call(aten.mul.Tensor, left, right)

    def product(self, left: Pair, right: Pair, times: Callable[[Part, Part], Part]) -> Pair:
        """Return the product of pairs, given that of real parts."""
        return Pair(
            self.plus(times(left.real, right.real), times(left.imaginary, right.imaginary), -1),
            self.plus(times(left.real, right.imaginary), times(left.imaginary, right.real)),
        )

    def power(self, value: Pair) -> Part:
        """Return the square of the absolute value."""
        real, imaginary = value.real, value.imaginary
        return self.plus(self.times(real, real), self.times(imaginary, imaginary))

    def each(self, node: Node) -> Pair:
        """Apply a linear node without a constant to each part."""
        return Pair(*(self._of_parts(node, name) for name in ("real", "imaginary")))

    def _of_parts(self, node: Node, name: str) -> Part:
        parts = {item: getattr(self.pair(item), name) for item in node.all_input_nodes}
        if not any(isinstance(part, Node) for item, part in parts.items() if _is_value(item)):
            return 0.0

        def part(item: Node) -> Node:
            if item not in self._pairs and not _is_value(item):
                return item
            return self.filled(self.pair(item), parts[item])

        args, kwargs = map_arg((node.args, node.kwargs), part)
        return self.call(node.target, *args, **kwargs)


def _is_value(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


_Rule = Callable[[Splitter, Node], Pair | Part]


def split_complex(module: GraphModule) -> None:
    """Rewrite, in place, complex numbers and Fourier transforms of an exported graph.

    Where one of them is not known, nothing is: what is left says later where it stands.
    """
    splitter = Splitter(module)
    if not any(map(splitter.concerns, module.graph.nodes)):
        return
    try:
        splitter.split()
    except UnknownError:
        return


def _given(node: Node) -> tuple[Argument, ...]:
    return tuple(aten_arguments(node).values())


def _pair(splitter: Splitter, node: Node) -> Pair:
    return splitter.pair(node.args[0])


def _pairs(splitter: Splitter, node: Node) -> tuple[Pair, Pair]:
    left, right = map(splitter.pair, _given(node)[:2])
    return left, right


def _conjugate(splitter: Splitter, node: Node) -> Pair:
    value = _pair(splitter, node)
    return Pair(value.real, splitter.times(-1.0, value.imaginary))


def _add(splitter: Splitter, node: Node, sign: int = 1) -> Pair:
    left, right, *rest = _given(node)
    by = sign * (rest[0] if rest else 1)
    left, right = splitter.pair(left), splitter.pair(right)
    return Pair(
        splitter.plus(left.real, splitter.times(by, right.real)),
        splitter.plus(left.imaginary, splitter.times(by, right.imaginary)),
    )


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


def _matrix(splitter: Splitter, node: Node) -> Pair:
    def times(left: Part, right: Part) -> Part:
        if left == 0.0 or right == 0.0:
            return 0.0
        return splitter.call(node.target, left, right)

    return splitter.product(*_pairs(splitter, node), times)


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
    value = _pair(splitter, node)
    if len(node.args) > 1 and node.args[1] != 2:
        raise UnknownError
    return splitter.product(value, value, splitter.times)


def _as_complex(splitter: Splitter, node: Node) -> Pair:
    return Pair(*(splitter.call(aten.select.int, node.args[0], -1, place) for place in (0, 1)))


def _as_real(splitter: Splitter, node: Node) -> Node:
    value = _pair(splitter, node)
    parts = [splitter.filled(value, part) for part in (value.real, value.imaginary)]
    return splitter.call(aten.stack.default, parts, -1)


def _turned(splitter: Splitter, size: Part, angle: Argument) -> Pair:
    return Pair(
        splitter.times(size, splitter.call(aten.cos.default, angle)),
        splitter.times(size, splitter.call(aten.sin.default, angle)),
    )


def _exponential(splitter: Splitter, node: Node) -> Pair:
    value = _pair(splitter, node)
    size: Part
    if isinstance(value.real, Node):
        size = splitter.call(aten.exp.default, value.real)
    else:
        size = math.exp(value.real)
    return _turned(splitter, size, value.imaginary)


def _size(splitter: Splitter, node: Node) -> Part:
    value = _pair(splitter, node)
    if value.imaginary == 0.0:
        return splitter.call(aten.abs.default, value.real)
    if value.real == 0.0:
        return splitter.call(aten.abs.default, value.imaginary)
    return splitter.call(aten.hypot.default, value.real, value.imaginary)


def _angle(splitter: Splitter, node: Node) -> Part:
    value = _pair(splitter, node)
    if not isinstance(value.real, Node) or not isinstance(value.imaginary, Node):
        raise UnknownError
    return splitter.call(aten.atan2.default, value.imaginary, value.real)


# Whether a transform goes back, and whether its input or output is real.
@dataclass(frozen=True)
class _Transform:
    back: bool = False
    real_in: bool = False
    real_out: bool = False

    def __call__(self, splitter: Splitter, node: Node) -> Pair | Part:
        value, length, dim, norm = (*aten_arguments(node).values(), None)[:4]
        dims = [dim] if isinstance(dim, int) else dim
        if dims is None:
            raise UnknownError
        lengths = [length] if isinstance(dim, int) else (length or [None] * len(dims))
        steps = list(zip(dims, lengths, strict=True))
        result = splitter.pair(value)
        # What is real is so in the last dimension: first there, back last of all.
        ordered = steps if self.real_out else steps[::-1]
        for number, (place, size) in enumerate(ordered):
            real_in = self.real_in and number == 0
            real_out = self.real_out and number == len(ordered) - 1
            result = self._along(splitter, result, place, size, norm, real_in, real_out)
        return result.real if self.real_out else result

    def _along(
        self, splitter: Splitter, value: Pair, dim: int, length: int | None, norm: str | None,
        real_in: bool, real_out: bool,
    ) -> Pair:  # fmt: skip
        shape = _shape(value)
        dim = dim % len(shape)
        if is_dynamic(shape[dim]):
            raise UnknownError
        size = int(shape[dim])
        if length is None:
            length = 2 * (size - 1) if real_out else size
        taken = min(length // 2 + 1 if real_out else length, size)
        cosine, sine = _matrices(length, taken, self.back, norm, real_in, real_out)
        parts = Pair(
            *(_front(splitter, part, dim, taken, size) for part in (value.real, value.imaginary))
        )

        def times(part: Part, matrix: Tensor, name: str) -> Part:
            if not isinstance(part, Node):
                return 0.0
            return _along_dim(splitter, part, splitter.constant(f"{part.name}_{name}", matrix), dim)

        real = splitter.plus(
            times(parts.real, cosine, "cosine"), times(parts.imaginary, sine, "sine"), -1
        )
        if real_out:
            return Pair(real)
        return Pair(
            real,
            splitter.plus(
                times(parts.real, sine, "sine"), times(parts.imaginary, cosine, "cosine")
            ),
        )


def _shape(value: Pair) -> Sequence[Argument]:
    part = value.real if isinstance(value.real, Node) else value.imaginary
    if not isinstance(part, Node):
        raise UnknownError
    return tuple(part.meta["val"].shape)


def _front(splitter: Splitter, part: Part, dim: int, taken: int, size: int) -> Part:
    if not isinstance(part, Node) or taken == size:
        return part
    return splitter.call(aten.slice.Tensor, part, dim, 0, taken)


def _along_dim(splitter: Splitter, part: Node, matrix: Node, dim: int) -> Node:
    last = part.meta["val"].dim() - 1
    if dim != last:
        part = splitter.call(aten.transpose.int, part, dim, last)
    result = splitter.call(aten.matmul.default, part, matrix)
    return splitter.call(aten.transpose.int, result, dim, last) if dim != last else result


def _matrices(
    length: int, taken: int, back: bool, norm: str | None, real_in: bool, real_out: bool
) -> tuple[Tensor, Tensor]:
    """Return cosines and sines, `[elements taken, elements of the result]` float32."""
    results = length // 2 + 1 if real_in else length
    places = torch.arange(taken)[:, None] * torch.arange(results)[None] % length
    angle = (2 if back else -2) * math.pi * places.double() / length
    scales = {"ortho": length**-0.5, "forward": 1.0 if back else 1 / length}
    scale = scales.get(norm or "", 1 / length if back else 1.0)
    cosine, sine = scale * angle.cos(), scale * angle.sin()
    # Exactly zero at quarters of a turn.
    quarters, whole = 4 * places // length, 4 * places % length == 0
    cosine[whole & (quarters % 2 == 1)] = 0.0
    sine[whole & (quarters % 2 == 0)] = 0.0
    if real_out:
        # What lies behind the middle mirrors what lies before it.
        twice = torch.full((taken, 1), 2.0, dtype=torch.float64)
        twice[0] = 1.0
        if length % 2 == 0 and taken == length // 2 + 1:
            twice[-1] = 1.0
        cosine, sine = twice * cosine, twice * sine
    return cosine.float(), sine.float()


def _shift(splitter: Splitter, node: Node) -> Pair | Part:
    value, dims = (*aten_arguments(node).values(), None)[:2]
    result = splitter.pair(value)
    shape = _shape(result)
    places = list(range(len(shape))) if dims is None else [dim % len(shape) for dim in dims]
    if any(is_dynamic(shape[place]) for place in places):
        raise UnknownError
    by = [int(shape[place]) for place in places]
    by = [size // 2 if node.target is aten.fft_fftshift.default else (size + 1) // 2 for size in by]

    def moved(part: Part) -> Part:
        return (
            splitter.call(aten.roll.default, part, by, places) if isinstance(part, Node) else part
        )

    real = moved(result.real)
    return Pair(real, moved(result.imaginary)) if is_complex(node) else real


def _short_time(splitter: Splitter, node: Node) -> Pair | Part:
    """Return the transforms of windows of a signal, `[..., elements, windows]`."""
    arguments = aten_arguments(node)
    value, length = splitter.pair(arguments["self"]), arguments["n_fft"]
    window, size = _window(splitter, arguments), _shape(value)[-1]
    if value.imaginary != 0.0 or window is None or is_dynamic(size):
        raise UnknownError
    real_in = arguments.get("onesided") is not False
    norm = "ortho" if arguments.get("normalized") else None
    frames = splitter.call(
        aten.unfold.default, value.real, -1, length, arguments.get("hop_length") or length // 4
    )
    matrices = _matrices(length, length, False, norm, real_in, False)
    parts = (
        splitter.call(
            aten.matmul.default, frames, splitter.constant(f"{node.name}_{name}", window * matrix)
        )
        for name, matrix in zip(("cosine", "sine"), matrices, strict=True)
    )
    result = Pair(*(splitter.call(aten.transpose.int, part, -2, -1) for part in parts))
    if is_complex(node):
        return result
    return splitter.call(aten.stack.default, [result.real, result.imaginary], -1)


def _window(splitter: Splitter, arguments: dict[str, Argument]) -> Tensor | None:
    length, node = arguments["n_fft"], arguments.get("window")
    inner = arguments.get("win_length") or length
    known = torch.ones(inner) if node is None else splitter.known(node)
    if known is None:
        return None
    before = (length - inner) // 2
    return torch.nn.functional.pad(known, (before, length - inner - before)).float()[:, None]


TRANSFORMS: dict[object, _Rule] = {
    aten.stft.default: _short_time,
    aten.fft_fft.default: _Transform(),
    aten.fft_ifft.default: _Transform(back=True),
    aten.fft_rfft.default: _Transform(real_in=True),
    aten.fft_irfft.default: _Transform(back=True, real_out=True),
    aten.fft_fft2.default: _Transform(),
    aten.fft_ifft2.default: _Transform(back=True),
    aten.fft_rfft2.default: _Transform(real_in=True),
    aten.fft_irfft2.default: _Transform(back=True, real_out=True),
    aten.fft_fftn.default: _Transform(),
    aten.fft_ifftn.default: _Transform(back=True),
    aten.fft_rfftn.default: _Transform(real_in=True),
    aten.fft_irfftn.default: _Transform(back=True, real_out=True),
}
SHIFTS: dict[object, _Rule] = {
    aten.fft_fftshift.default: _shift,
    aten.fft_ifftshift.default: _shift,
}


# What does to each part what it does to a real tensor.
_LINEAR = [
    torch_target(f"aten.{name}")
    for name in """reshape.default view.default flatten.using_ints unflatten.int transpose.int
    permute.default movedim.intlist movedim.int unsqueeze.default squeeze.dim squeeze.default
    expand.default repeat.default slice.Tensor narrow.default select.int index.Tensor
    index_select.default cat.default stack.default clone.default contiguous.default alias.default
    detach.default roll.default flip.default neg.default sum.dim_IntList sum.default mean.dim
    cumsum.default mT.default t.default""".split()  # noqa: SIM905
]
_RULES: dict[object, _Rule] = {
    **TRANSFORMS,
    **SHIFTS,
    **dict.fromkeys(_LINEAR, Splitter.each),
    aten.add.Tensor: _add,
    aten.sub.Tensor: lambda by, node: _add(by, node, -1),
    aten.mul.Tensor: lambda by, node: by.product(*_pairs(by, node), by.times),
    aten.div.Tensor: lambda by, node: _over(by, *_pairs(by, node)),
    aten.reciprocal.default: lambda by, node: _over(by, Pair(1.0), _pair(by, node)),
    aten.matmul.default: _matrix,
    aten.bmm.default: _matrix,
    aten.einsum.default: _einsum,
    aten.square.default: _square,
    aten.pow.Tensor_Scalar: _square,
    aten._conj.default: _conjugate,
    aten._conj_physical.default: _conjugate,
    aten.conj_physical.default: _conjugate,
    aten.resolve_conj.default: Splitter.each,
    aten.real.default: lambda by, node: _pair(by, node).real,
    aten.imag.default: lambda by, node: _pair(by, node).imaginary,
    aten.view_as_complex.default: _as_complex,
    aten.view_as_real.default: _as_real,
    aten.complex.default: lambda by, node: Pair(*_given(node)[:2]),
    aten.polar.default: lambda by, node: _turned(by, *_given(node)[:2]),
    aten.exp.default: _exponential,
    aten.abs.default: _size,
    aten.angle.default: _angle,
}
# What has a rule of real numbers, too.
_ALWAYS = {*TRANSFORMS, *SHIFTS}
