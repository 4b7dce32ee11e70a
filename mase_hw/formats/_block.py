"""The block core: elements that share a power-of-two scale.

Along `axis`, `block_size` neighbours share a scale `2**X`; the last block of a row that the size
does not divide is shorter (as if padded with zeros that are dropped again). With the largest
magnitude `amax` of a block, `X = floor(log2(amax)) - emax`, bounded to what the scale's bits hold;
`emax` is the exponent of the element's largest number. Elements are `value / 2**X` in the element's
format, which saturates. A block of zeros takes the smallest `X`. Infinities count as the largest
finite number of binary32, NaN does not count.

Source of the rule: OCP Microscaling Formats (MX) 1.0, section 6.3.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw._kinds import Record
from mase_hw.errors import FormatError
from mase_hw.formats import _binary_scale as binary
from mase_hw.formats._base import Format, StreamField
from mase_hw.formats._checks import check_integer
from mase_hw.formats._encoding import Encoding, Kind
from mase_hw.formats._float import FloatElement
from mase_hw.formats._integer import IntegerElement

MAX_BLOCK_SIZE = 1 << 16
MAX_SCALE_BIAS = 250


def joined(blocks: Tensor, size: int) -> Tensor:
    """Return `[..., blocks, block size]` as `[..., size]`, the padding of the last block dropped.

    A slice that torch.compile fuses with what reads it loses the short last block: the C++ backend
    of torch 2.13 splits a loop of `size` by the block size and drops the remainder
    (`try_loop_split`). A view by strides makes it store the whole blocks first.
    """
    flat = blocks.flatten(-2)
    if flat.shape[-1] == size:
        return flat
    flat = flat.contiguous()
    return flat.as_strided((*flat.shape[:-1], size), flat.stride())


@dataclass(frozen=True)
class PowerScale:
    """A shared scale `2**(code - bias)`.

    Attributes:
        width: bits of the code.
        bias: subtracted from the code.
        codes: how many codes are scales; E8M0 leaves the last one to NaN.
        nearest: whether the exponent of `amax` is rounded to nearest instead of down, which suits
            elements without a mantissa.
        nan: whether the last code, which is no scale then, makes every element NaN.
    """

    width: int
    bias: int
    codes: int
    nearest: bool = False
    nan: bool = False

    def of(self, magnitudes: Tensor, element: FloatElement | IntegerElement) -> Tensor:
        """Return the exponents X for the largest magnitudes of blocks."""
        exponents = binary.exponent_of(magnitudes)
        if self.nearest:
            exponents = exponents + binary.is_upper_half(magnitudes)
        return (exponents - element.exponent).clamp(-self.bias, self.codes - 1 - self.bias)

    def of_integers(
        self, magnitudes: Tensor, exponents: Tensor, element: FloatElement | IntegerElement
    ) -> Tensor:
        """Return X for blocks `[..., n]` of exact integers with exponents."""
        top = binary.top_bit(magnitudes)
        if self.nearest:
            below = magnitudes >> (top - 1).clamp(min=0)
            top = top + ((top > 0) & (below == 3))
        places = torch.where(magnitudes == 0, -(1 << 20), top + exponents).amax(-1, keepdim=True)
        return (places - element.exponent).clamp(-self.bias, self.codes - 1 - self.bias)


@dataclass(frozen=True)
class BlockFormat(Format):
    """A block format. Subclasses set element and scale in their constructor.

    A code is `scale code | element bits`.
    """

    inherited: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def blocking(self) -> tuple[int, int]:
        """Block size and axis."""

    def fits_lanes(self, lanes: int) -> bool:
        """True if `lanes` divides the blocks."""
        return self.blocking[0] % lanes == 0

    def _set(self, element: FloatElement | IntegerElement, scale: PowerScale) -> None:
        block_size, axis = self.blocking
        check_integer(self.name, "block_size", block_size, 1, MAX_BLOCK_SIZE)
        check_integer(self.name, "axis", axis, -8, 7)
        object.__setattr__(self, "_element", element)
        object.__setattr__(self, "_scale", scale)

    @property
    def element(self) -> FloatElement | IntegerElement:
        """Layout of the elements."""
        element: FloatElement | IntegerElement = self.__dict__["_element"]
        return element

    @property
    def scale(self) -> PowerScale:
        """Layout of the shared scale."""
        scale: PowerScale = self.__dict__["_scale"]
        return scale

    def __str__(self) -> str:
        """Return a short name such as `mxint<8,32>` (element width, block size)."""
        return f"{self.name}<{self.element.width},{self.blocking[0]}>"

    @property
    def bits_per_element(self) -> float:
        return self.element.width + self.scale.width / self.blocking[0]

    def _blocks(self, values: Tensor) -> Tensor:
        """Return `values` as `[..., blocks, block size]`, padded with zeros."""
        size, axis = self.blocking
        if values.ndim == 0:
            values = values.reshape(1)
        moved = values if axis in (-1, values.ndim - 1) else values.movedim(axis, -1)
        padding = -moved.shape[-1] % size
        if padding:
            moved = F.pad(moved, (0, padding))
        return moved.reshape(*moved.shape[:-1], moved.shape[-1] // size, size)

    def _unblock(self, blocks: Tensor, shape: torch.Size) -> Tensor:
        axis = self.blocking[1]
        if not shape:
            return blocks.reshape(-1)[0]
        flat = joined(blocks, shape[axis])
        return (flat if axis in (-1, len(shape) - 1) else flat.movedim(-1, axis)).reshape(shape)

    def _scaled(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return blocks divided by their scales, and X `[..., blocks, 1]`."""
        dtype = self.element.dtype(values)
        if self.scale.bias > 127 + self.element.exponent:
            # Scales of numbers that are subnormal in binary32 matter.
            dtype = torch.float64
        blocks = self._blocks(values.to(dtype))
        limit = torch.finfo(torch.float32).max
        magnitudes = blocks.abs().nan_to_num(0.0, posinf=limit).amax(-1, keepdim=True)
        exponents = self.scale.of(magnitudes, self.element)
        return binary.scale(blocks, -exponents), exponents

    def round_values(self, values: Tensor) -> Tensor:
        if not values.numel():
            return values.clone()
        scaled, exponents = self._scaled(values)
        rounded = binary.scale(self.element.round(scaled), exponents)
        return self._unblock(rounded, values.shape).to(values.dtype)

    @property
    def scales_are_powers(self) -> bool:
        """Whether values are elements times a power of two, and nothing else."""
        return type(self).round_values is BlockFormat.round_values

    def exponents(self, magnitudes: Tensor) -> Tensor:
        """Return the exponents X of blocks by their largest magnitudes."""
        return self.scale.of(binary.working(magnitudes), self.element)

    def bounded(self, exponents: Tensor) -> Tensor:
        """Return the nearest exponents that the scale's bits hold."""
        return exponents.clamp(-self.scale.bias, self.scale.codes - 1 - self.scale.bias)

    def round_in_scale(self, values: Tensor, exponents: Tensor) -> Tensor:
        """Return the nearest representable reals in scales that are given, not the values' own."""
        return binary.scale(self.element.round(binary.scale(values, -exponents)), exponents)

    def headroom(self, values: Tensor) -> Tensor:
        if not values.numel():
            return torch.zeros_like(values)
        scaled, _ = self._scaled(values)
        return self._unblock(self.element.clip - scaled.abs(), values.shape)

    def encode(self, values: Tensor) -> Tensor:
        """Return int64 codes; NaN is refused where elements have none."""
        if self.element.nan_code is None and bool(torch.isnan(values).any()):
            raise FormatError(f"{self} has no code for NaN; the data holds at least one")
        if not values.numel():
            return torch.zeros(values.shape, dtype=torch.int64)
        scaled, exponents = self._scaled(values.detach().double())
        return self._pack(self.element.encode(scaled), exponents, values.shape)

    def _pack(self, elements: Tensor, exponents: Tensor, shape: torch.Size) -> Tensor:
        scales = exponents.to(torch.int64) + self.scale.bias
        return self._unblock((scales << self.element.width) | elements, shape)

    def split(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return element bits and the exponents X of codes."""
        mask = (1 << self.element.width) - 1
        return codes & mask, (codes >> self.element.width) - self.scale.bias

    def significands(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the exact values as int64 significands and exponents of two."""
        bits, scales = self.split(codes)
        significands, exponents = self.element.significands(bits)
        return significands, exponents + scales + self.element.lsb_exponent

    def decode(self, codes: Tensor) -> Tensor:
        """Return float64 values; NaN where the scale's code is NaN."""
        elements, exponents = self.split(codes)
        values = binary.scale(self.element.decode(elements), exponents)
        if self.scale.nan:
            values = torch.where(exponents + self.scale.bias == self.scale.codes, torch.nan, values)
        return values

    def from_fixed(self, codes: Tensor, frac_width: int) -> Tensor:
        """Round exact integers in blocks along the axis."""
        return self.from_scaled(codes, torch.full_like(codes, -frac_width))

    def from_scaled(self, integers: Tensor, exponents: Tensor) -> Tensor:
        """Round exact `integers * 2**exponents` in blocks along the axis."""
        if not integers.numel():
            return integers.clone()
        values, places = self._blocks(integers), self._blocks(exponents)
        shared = self.scale.of_integers(values.abs(), places, self.element)
        elements = self.element.from_scaled(values, places - shared)
        return self._pack(elements, shared, integers.shape)

    def scale_lanes(self, lanes: int, rows: int) -> int:
        """Return the scales of a beat: one for each group of lanes that lies in one block."""
        return lanes // math.gcd(lanes // rows, self.blocking[0])

    def stream_fields(self, lanes: int, rows: int = 1) -> tuple[StreamField, ...]:
        """Return the elements, and the scales that they share."""
        return (
            StreamField("", lanes, self.element.width),
            StreamField("_exponent", self.scale_lanes(lanes, rows), self.scale.width),
        )

    def to_fields(self, codes: Tensor, rows: int = 1) -> dict[str, Tensor]:
        """Split codes; the first element of a group gives the group's scale."""
        lanes = codes.shape[1]
        group = lanes // self.scale_lanes(lanes, rows)
        width = self.element.width
        return {"": codes & ((1 << width) - 1), "_exponent": codes[:, ::group] >> width}

    def from_fields(self, fields: Mapping[str, Tensor]) -> Tensor:
        elements, scales = fields[""], fields["_exponent"]
        spread = scales.repeat_interleave(elements.shape[1] // scales.shape[1], dim=1)
        return (spread << self.element.width) | elements

    @property
    def encoding(self) -> Encoding:
        """Integers or floats with a shared scale."""
        element, scale = self.element, self.scale
        fields: Record = {
            "block_size": self.blocking[0],
            "scale_width": scale.width,
            "scale_bias": scale.bias,
            "scale_codes": scale.codes,
        }
        if isinstance(element, FloatElement):
            return Encoding(
                element.width,
                Kind.FLOAT,
                exponent_width=element.exponent_width,
                exponent_bias=element.bias,
                maximum_code=element.maximum_code,
                **fields,
            )
        return Encoding(element.width, symmetric=element.symmetric, **fields)

    def random_codes(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        """Return uniform elements with one uniform scale in each block."""
        elements = self.element.random_codes(tuple(shape), generator)
        if not elements.numel():
            return elements
        blocks = self._blocks(elements)
        scales = torch.randint(0, self.scale.codes, (*blocks.shape[:-1], 1), generator=generator)
        return self._unblock((scales << self.element.width) | blocks, elements.shape)

    @classmethod
    def fit(cls, minimum: float, maximum: float, **fields: object) -> Self:
        """Return the format; its scales follow the data by themselves."""
        return cls(**fields)
