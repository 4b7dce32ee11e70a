"""Scaled integers: `value = (code - zero_point) * scale`, for a tensor, a channel or a group.

Value set: codes of `width` bits, two's complement when `signed`; symmetric formats leave out the
most negative signed code and have no zero point. `scale` and `zero_point` are numbers, or as many
numbers as the dimension `channel_axis` has, or with `group_size` one for so many neighbours of the
last dimension, which is for software alone. Codes are `round(value / scale) + zero_point`, to
nearest with ties to even, saturating. Zero is a value exactly; infinities saturate; NaN is refused.

Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference" (2018), arXiv:1712.05877.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import torch
from torch import Tensor

from mase_hw._kinds import Setting, Table
from mase_hw.errors import FormatError
from mase_hw.formats import _binary_scale as binary
from mase_hw.formats._base import Format
from mase_hw.formats._checks import check_bool, check_integer, check_positive
from mase_hw.formats._codes import CodeFormat
from mase_hw.formats._encoding import Encoding, Kind

Numbers = float | tuple[float, ...]
# Of what is fitted to values, and of what is given.
MAX_WIDTH_BITS, WIDEST_BITS = 24, 32
# Of the scale of a group, and of its zero point where there is one.
SCALE_BITS, LARGEST_GROUP = 32, 1 << 16
# Widths of constants that a choice of formats tries.
TRIED_WIDTHS = range(4, 13)


@dataclass(frozen=True)
class ScaledInteger(CodeFormat):
    """Integers with a real scale.

    Attributes:
        width: bits of a code, 2 to 32.
        scale: the value of one step, or one for each channel.
        zero_point: the code of zero, or one for each channel.
        signed: two's complement when true.
        symmetric: zero point 0 and as many negative as positive codes.
        channel_axis: dimension of the channels; None for one scale.
        group_size: elements of a row that share a scale, of rows that it divides; None for none.
        power_of_two: fit scales that are powers of two, so that hardware shifts and has no
            multiplier for them.

    Examples:
        >>> ScaledInteger(8, scale=0.1).encode(torch.tensor([1.04, -20.0]))
        tensor([  10, -127])
    """

    name = "scaled_integer"
    abbreviation = "scaled"
    fitted = ("scale", "zero_point")
    inherited = ("width", "signed", "symmetric")

    width: int = 8
    scale: Numbers = 0.0625
    zero_point: int | tuple[int, ...] = 0
    signed: bool = True
    symmetric: bool = True
    channel_axis: int | None = None
    power_of_two: bool = False
    group_size: int | None = None

    def __post_init__(self) -> None:
        check_integer(self.name, "width", self.width, 2, WIDEST_BITS)
        check_bool(self.name, "signed", self.signed)
        check_bool(self.name, "symmetric", self.symmetric)
        check_bool(self.name, "power_of_two", self.power_of_two)
        for field in ("scale", "zero_point"):
            entry = getattr(self, field)
            if isinstance(entry, list):
                object.__setattr__(self, field, tuple(entry))
        for scale in self._each(self.scale):
            check_positive(self.name, "scale", scale)
        low, high = self.code_range
        for point in self._each(self.zero_point):
            check_integer(self.name, "zero_point", point, low, high)
            if self.symmetric and point != 0:
                raise FormatError(f"{self.name}: zero_point is {point}; symmetric allows only 0")
        channels = [g for g in (self.scale, self.zero_point) if isinstance(g, tuple)]
        if channels and self.channel_axis is None and self.group_size is None:
            raise FormatError(f"{self.name}: scale for each channel needs channel_axis")
        if self.group_size is not None:
            check_integer(self.name, "group_size", self.group_size, 1, LARGEST_GROUP)
            if self.channel_axis is not None:
                raise FormatError(f"{self.name}: give channel_axis or group_size, not both")
        if self.channel_axis is not None:
            check_integer(self.name, "channel_axis", self.channel_axis, -8, 7)
        if len({len(item) for item in channels}) > 1:
            raise FormatError(f"{self.name}: scale and zero_point differ in their channels")

    @staticmethod
    def _each(entry: object) -> Sequence[object]:
        return entry if isinstance(entry, tuple) else (entry,)

    def __str__(self) -> str:
        """Return a short name such as `scaled_integer<8>`."""
        channels = ",per channel" if isinstance(self.scale, tuple) else ""
        if self.group_size is not None:
            channels = f",groups of {self.group_size}"
        return f"{self.name}<{self.width}{channels}>"

    @property
    def code_bits(self) -> int:
        return self.width

    @property
    def bits_per_element(self) -> float:
        if self.group_size is None:
            return self.width
        points = 0 if self.symmetric else self.width
        return self.width + (SCALE_BITS + points) / self.group_size

    @property
    def code_range(self) -> tuple[int, int]:
        if not self.signed:
            return 0, (1 << self.width) - 1
        high = (1 << (self.width - 1)) - 1
        return -high - (not self.symmetric), high

    def _parameter(self, entry: object, like: Tensor, dtype: torch.dtype) -> Tensor:
        """Return a scale or zero point, shaped to broadcast over `like`."""
        tensor = torch.tensor(entry, dtype=dtype, device=like.device)
        if tensor.ndim and self.group_size is not None:
            if tensor.numel() * self.group_size != like.numel():
                raise FormatError(f"{self} has {len(tensor)} groups; the data {tuple(like.shape)}")
            return tensor.repeat_interleave(self.group_size).reshape(like.shape)
        if tensor.ndim == 0 or self.channel_axis is None:
            return tensor
        axis = self.channel_axis % max(like.ndim, 1)
        if like.ndim <= axis or like.shape[axis] != len(tensor):
            raise FormatError(
                f"{self} has {len(tensor)} channels along dimension {self.channel_axis}; "
                f"the data has shape {tuple(like.shape)}"
            )
        return tensor.reshape(-1, *[1] * (like.ndim - axis - 1))

    def _codes(self, values: Tensor) -> Tensor:
        steps = torch.round(values / self._parameter(self.scale, values, values.dtype))
        point = self._parameter(self.zero_point, values, values.dtype)
        return (steps + point).clamp(*self.code_range)

    def round_values(self, values: Tensor) -> Tensor:
        work = values.double()
        return self._values(self._codes(work), work.dtype).to(values.dtype)

    def _values(self, codes: Tensor, dtype: torch.dtype) -> Tensor:
        point = self._parameter(self.zero_point, codes, dtype)
        return (codes.to(dtype) - point) * self._parameter(self.scale, codes, dtype)

    def headroom(self, values: Tensor) -> Tensor:
        """Count from half a step beyond the range, in steps."""
        scale = self._parameter(self.scale, values, values.dtype)
        steps = values / scale + self._parameter(self.zero_point, values, values.dtype)
        low, high = self.code_range
        return torch.minimum(steps - (low - 0.5), (high + 0.5) - steps)

    def encode(self, values: Tensor) -> Tensor:
        if bool(torch.isnan(values).any()):
            raise FormatError(f"{self} has no code for NaN; the data holds at least one")
        return self._codes(values.detach().double()).to(torch.int64)

    def decode(self, codes: Tensor) -> Tensor:
        return self._values(codes, torch.float64)

    def from_fixed(self, codes: Tensor, frac_width: int) -> Tensor:
        """Divide exact integers by the scale as a rational number and round once."""
        scales = self._parameter(self.scale, codes, torch.float64).broadcast_to(codes.shape)
        points = self._parameter(self.zero_point, codes, torch.int64).broadcast_to(codes.shape)
        low, high = self.code_range
        unit = Fraction(2) ** -frac_width
        flat = [
            min(max(round(code * unit / Fraction(scale)) + point, low), high)
            for code, scale, point in zip(
                codes.reshape(-1).tolist(),
                scales.reshape(-1).tolist(),
                points.reshape(-1).tolist(),
                strict=True,
            )
        ]
        return torch.tensor(flat, dtype=torch.int64).reshape(codes.shape)

    @property
    def real_scale(self) -> Fraction:
        if isinstance(self.scale, tuple):
            raise FormatError(f"{self} has a scale for each channel, not one")
        return Fraction(self.scale)

    def unscaled(self) -> ScaledInteger:
        """Return the format whose values are whole steps."""
        return replace(self, scale=1.0)

    def significands(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values in steps of their scale, and zeros."""
        integers = codes - self._parameter(self.zero_point, codes, torch.int64)
        return integers, torch.zeros_like(integers)

    def from_scaled(self, integers: Tensor, exponents: Tensor) -> Tensor:
        """Divide by the scale as a rational number and round once; by 1 much faster."""
        if self.scale != 1.0:
            return super().from_scaled(integers, exponents)
        nearest = binary.scaled_integer(integers.abs(), exponents, self.width + 1)
        point = self._parameter(self.zero_point, integers, torch.int64)
        return (torch.where(integers < 0, -nearest, nearest) + point).clamp(*self.code_range)

    @property
    def scales(self) -> tuple[float, ...]:
        """The scale, or that of each channel."""
        return self.scale if isinstance(self.scale, tuple) else (self.scale,)

    @property
    def zero_points(self) -> tuple[int, ...]:
        """The zero point, or that of each channel."""
        return self.zero_point if isinstance(self.zero_point, tuple) else (self.zero_point,)

    @property
    def centred(self) -> bool:
        """Whether the code 0 is zero everywhere."""
        return not any(self.zero_points)

    @property
    def encoding(self) -> Encoding:
        """Integers around a zero point; the scale is no part of it."""
        if self.group_size is not None:
            raise FormatError(f"{self}: scales of groups are for software; give channel_axis")
        return Encoding(
            self.width,
            Kind.OFFSET,
            signed=self.signed,
            symmetric=self.symmetric,
            zero_point=self.zero_points[0],
        )

    def scaled(self, octaves: float) -> ScaledInteger:
        factor = 2.0**octaves
        if isinstance(self.scale, tuple):
            return replace(self, scale=tuple(factor * scale for scale in self.scale))
        return replace(self, scale=factor * self.scale)

    @classmethod
    def fit(cls, minimum: float, maximum: float, **fields: Setting) -> ScaledInteger:
        """Return the format whose codes just cover the range and zero."""
        if "scale" in fields:
            return cls(**fields)
        whole = {**fields, "channel_axis": None, "group_size": None}
        return cls.fit_values(torch.tensor([minimum, maximum]), **whole)

    @classmethod
    def fit_values(cls, values: Tensor, **fields: Setting) -> ScaledInteger:
        """Return the format whose codes just cover `values`, each channel of its own."""
        if "scale" in fields:
            return cls(**fields)
        shape = cls(**{key: value for key, value in fields.items() if key != "zero_point"})
        axis, (low, high) = shape.channel_axis, shape.code_range
        group = shape.group_size
        if group is not None and values.numel():
            if values.dim() == 0 or values.shape[-1] % group:
                raise FormatError(
                    f"{shape} needs rows that {group} divides; the data has {tuple(values.shape)}"
                )
            rows = values.detach().double().reshape(-1, group)
        elif axis is None or not values.numel():
            rows = values.detach().double().reshape(1, -1)
        else:
            rows = values.detach().double().movedim(axis, 0).flatten(1)
        if not rows.numel():
            return cls(**fields)
        least, most = rows.amin(1).clamp(max=0), rows.amax(1).clamp(min=0)
        if shape.symmetric:
            scales = torch.maximum(-least, most) / high
        else:
            scales = (most - least) / (high - low)
        scales = scales.clamp(min=2.0**-100)
        if shape.power_of_two:
            # The least power that reaches as far: its mantissa is from a half up to one.
            mantissas, exponents = torch.frexp(scales)
            scales = torch.ldexp(torch.ones_like(scales), exponents - (mantissas == 0.5).int())
        points = torch.zeros_like(scales)
        if not shape.symmetric:
            points = (low - torch.round(least / scales)).clamp(low, high)
        steps, zeros = scales.tolist(), [int(point) for point in points.tolist()]
        if axis is None and group is None:
            return cls(**{**fields, "scale": steps[0], "zero_point": zeros[0]})
        return cls(**{**fields, "scale": steps, "zero_point": zeros})

    @classmethod
    def choices(cls, row: int, channel_axis: int | None = None) -> Sequence[Table]:
        """Return, of constants with channels, `TRIED_WIDTHS` with a scale or a power a channel."""
        if channel_axis is None:
            return ()
        return [
            {"width": width, "channel_axis": channel_axis, "power_of_two": power}
            for power in (True, False)
            for width in TRIED_WIDTHS
        ]

    @classmethod
    def of_channels(cls, channels: Sequence[Self], **fields: Setting) -> Self:
        """Return the format with the scales and zero points of formats of one channel each."""
        scales = [scale for channel in channels for scale in channel.scales]
        points = [point for channel in channels for point in channel.zero_points]
        return cls(**{**fields, "scale": tuple(scales), "zero_point": tuple(points)})

    @classmethod
    def covering(cls, formats: Sequence[Format], minimum: float, maximum: float) -> Format | None:
        """Return the steps of the finest in as many bits as reach the largest value."""
        scaled = [item for item in formats if isinstance(item, ScaledInteger)]
        if any(item.channel_axis is not None for item in scaled):
            return None
        reach = torch.tensor(
            [item.decode(torch.tensor(item.code_range)).tolist() for item in scaled]
        )
        low, high = max(minimum, float(reach.min())), min(maximum, float(reach.max()))
        finest = min(scaled, key=lambda item: (item.scales, -item.width))
        for width in range(finest.width, MAX_WIDTH_BITS + 1):
            wider = replace(finest, width=width)
            if bool(wider.in_range(torch.tensor([low, high], dtype=torch.float64)).all()):
                return wider
        fields = {"signed": finest.signed, "symmetric": finest.symmetric}
        return cls.fit(low, high, width=MAX_WIDTH_BITS, **fields)
