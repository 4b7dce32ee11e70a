"""Fourier transforms as products with matrices.

`exp(2 pi i k t / n)` is `cos + i sin`, so that a transform of known length is a product of each
part with constant matrices (the definition of `torch.fft`); one over the batch is none of an
inference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._aten import aten
from mase_hw._kinds import Argument
from mase_hw.graph._complex_parts import Pair, Part, Rule, Splitter, UnknownError, is_complex
from mase_hw.graph._rewriter import is_dynamic
from mase_hw.graph.calls import aten_arguments


# Whether a transform goes back, and whether its input or output is real.
@dataclass(frozen=True)
class _Transform:
    back: bool = False
    real_in: bool = False
    real_out: bool = False

    def __call__(self, splitter: Splitter, node: Node) -> Pair | Part:
        """Return the transform, one dimension after the other."""
        value, length, dim, norm = (*aten_arguments(node).values(), None)[:4]
        dims = [dim] if isinstance(dim, int) else dim
        if dims is None:
            raise UnknownError
        lengths = [length] if isinstance(dim, int) else (length or [None] * len(dims))
        steps = list(zip(dims, lengths, strict=True))
        found = splitter.pair(value)
        # What is real is so in the last dimension: first there, back last of all.
        ordered = steps if self.real_out else steps[::-1]
        for number, (place, size) in enumerate(ordered):
            real_in = self.real_in and number == 0
            real_out = self.real_out and number == len(ordered) - 1
            found = self._along(splitter, found, place, size, norm, real_in, real_out)
        return found.real if self.real_out else found

    def _along(
        self,
        splitter: Splitter,
        value: Pair,
        dim: int,
        length: int | None,
        norm: str | None,
        real_in: bool,
        real_out: bool,
    ) -> Pair:
        """Return the transform along a dimension."""
        shape = _shape(value)
        dim = dim % len(shape)
        if is_dynamic(shape[dim]):
            raise UnknownError
        size = int(shape[dim])
        if length is None:
            length = 2 * (size - 1) if real_out else size
        taken = min(length // 2 + 1 if real_out else length, size)
        cosine, sine = _matrices(length, taken, self.back, norm, real_in, real_out)
        parts = Pair(*(_front(splitter, part, dim, taken, size) for part in _parts(value)))

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


def _parts(value: Pair) -> tuple[Part, Part]:
    return value.real, value.imaginary


def _shape(value: Pair) -> Sequence[Argument]:
    part = value.real if isinstance(value.real, Node) else value.imaginary
    if not isinstance(part, Node):
        raise UnknownError
    return tuple(part.meta["val"].shape)


def _front(splitter: Splitter, part: Part, dim: int, taken: int, size: int) -> Part:
    """Return the first elements along a dimension; zeros behind them change nothing."""
    if not isinstance(part, Node) or taken == size:
        return part
    return splitter.call(aten.slice.Tensor, part, dim, 0, taken)


def _along_dim(splitter: Splitter, part: Node, matrix: Node, dim: int) -> Node:
    """Return a tensor times a matrix along a dimension."""
    last = part.meta["val"].dim() - 1
    if dim != last:
        part = splitter.call(aten.transpose.int, part, dim, last)
    found = splitter.call(aten.matmul.default, part, matrix)
    return splitter.call(aten.transpose.int, found, dim, last) if dim != last else found


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
    """Return a tensor whose halves change places."""
    value, dims = (*aten_arguments(node).values(), None)[:2]
    found = splitter.pair(value)
    shape = _shape(found)
    places = list(range(len(shape))) if dims is None else [dim % len(shape) for dim in dims]
    if any(is_dynamic(shape[place]) for place in places):
        raise UnknownError
    by = [int(shape[place]) for place in places]
    by = [size // 2 if node.target is aten.fft_fftshift.default else (size + 1) // 2 for size in by]

    def moved(part: Part) -> Part:
        return (
            splitter.call(aten.roll.default, part, by, places) if isinstance(part, Node) else part
        )

    real = moved(found.real)
    return Pair(real, moved(found.imaginary)) if is_complex(node) else real


def _short_time(splitter: Splitter, node: Node) -> Pair | Part:
    """Return the transforms of windows of a signal, `[..., elements, windows]`."""
    given = aten_arguments(node)
    value, length = splitter.pair(given["self"]), given["n_fft"]
    window, size = _window(splitter, given), _shape(value)[-1]
    if value.imaginary != 0.0 or window is None or is_dynamic(size):
        raise UnknownError
    real_in = given.get("onesided") is not False
    norm = "ortho" if given.get("normalized") else None
    frames = splitter.call(
        aten.unfold.default, value.real, -1, length, given.get("hop_length") or length // 4
    )
    matrices = _matrices(length, length, False, norm, real_in, False)
    parts = (
        splitter.call(
            aten.matmul.default, frames, splitter.constant(f"{node.name}_{name}", window * matrix)
        )
        for name, matrix in zip(("cosine", "sine"), matrices, strict=True)
    )
    found = Pair(*(splitter.call(aten.transpose.int, part, -2, -1) for part in parts))
    if is_complex(node):
        return found
    return splitter.call(aten.stack.default, [found.real, found.imaginary], -1)


def _window(splitter: Splitter, given: dict[str, Argument]) -> Tensor | None:
    """Return what a window is weighed with, `[elements, 1]`; None where that is computed."""
    length, node = given["n_fft"], given.get("window")
    inner = given.get("win_length") or length
    known = torch.ones(inner) if node is None else splitter.known(node)
    if known is None:
        return None
    before = (length - inner) // 2
    return torch.nn.functional.pad(known, (before, length - inner - before)).float()[:, None]


TRANSFORMS: dict[object, Rule] = {
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
SHIFTS: dict[object, Rule] = {
    aten.fft_fftshift.default: _shift,
    aten.fft_ifftshift.default: _shift,
}
