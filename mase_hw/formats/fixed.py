"""Fixed point: `value = code * 2**-frac_width`, a two's complement or unsigned code.

Value set: `code * 2**-frac_width` for `code` in `[-2**(width-1), 2**(width-1) - 1]` when signed,
`[0, 2**width - 1]` when not. `frac_width` may be negative or exceed `width`. Rounding is to
nearest with ties to even unless `rounding` says otherwise; overflow saturates unless `overflow`
says `wrap` (modulo `2**width`). Zero has one code; infinities always saturate; NaN is refused.

Source: two's complement fixed point as in Yates, "Fixed-Point Arithmetic: An Introduction" (2009);
rounding attributes as in IEEE 754-2019, section 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from mase_hw._kinds import Setting, Table
from mase_hw.errors import FormatError
from mase_hw.formats._base import Format, StreamField
from mase_hw.formats._checks import check_bool, check_choice, check_integer
from mase_hw.formats._encoding import Encoding, Overflow, Rounding

ROUNDING_MODES = ("nearest_even", "nearest_up", "floor", "toward_zero")
OVERFLOW_MODES = ("saturate", "wrap")
MIN_WIDTH_BITS = 2
MAX_WIDTH_BITS = 32
# What exact values are carried in between a decoder and an encoder; no configuration asks for it.
MAX_EXACT_BITS = 62
MAX_FRAC_WIDTH = 64
# Widths that a choice of formats tries.
TRIED_WIDTHS = (*range(4, 21), 24, 28)
# Bits by which a fraction is longer than one that holds all values, and by how many times it has to
# lose less, as what is clipped may count for more than the rest.
LONGER, GAIN = range(1, 5), 2.0
# Elements that are encoded at a time.
ENCODED_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Fixed(Format):
    """Fixed-point numbers.

    Attributes:
        width: bits of a code, 2 to 32 in a configuration; exact values are carried in up to 62.
        frac_width: fraction bits, -64 to 64.
        signed: two's complement when true.
        rounding: one of `nearest_even`, `nearest_up` (half up), `floor`, `toward_zero`.
        overflow: `saturate` or `wrap`.

    Raises:
        FormatError: when a field is out of range.

    Examples:
        >>> Fixed(8, 4).encode(torch.tensor([1.03125, -9.0]))
        tensor([  16, -128])
    """

    name = "fixed"
    aliases = ("integer",)
    abbreviation = "fixed"
    fitted = ("frac_width",)

    width: int = 8
    frac_width: int = 4
    signed: bool = True
    rounding: str = "nearest_even"
    overflow: str = "saturate"

    def __post_init__(self) -> None:
        check_integer("fixed", "width", self.width, MIN_WIDTH_BITS, MAX_EXACT_BITS)
        check_integer("fixed", "frac_width", self.frac_width, -MAX_FRAC_WIDTH, MAX_FRAC_WIDTH)
        check_bool("fixed", "signed", self.signed)
        check_choice("fixed", "rounding", self.rounding, ROUNDING_MODES)
        check_choice("fixed", "overflow", self.overflow, OVERFLOW_MODES)

    def __str__(self) -> str:
        """Return a short name such as `fixed<8,4>` or `ufixed<8,4>`."""
        return f"{'' if self.signed else 'u'}fixed<{self.width},{self.frac_width}>"

    @property
    def minimum_code(self) -> int:
        """The smallest code that the width has."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def maximum_code(self) -> int:
        """The largest code that the width has."""
        return (1 << (self.width - 1)) - 1 if self.signed else (1 << self.width) - 1

    @property
    def bits_per_element(self) -> float:
        return float(self.width)

    def round_values(self, values: Tensor) -> Tensor:
        """Return the nearest representable reals in the dtype of `values`."""
        exact_bits = {torch.float64: 53, torch.float32: 24}.get(values.dtype, 0)
        work = values if self.width < exact_bits else values.double()
        scale = 2.0**self.frac_width
        codes = self._bound(_round(work * scale, self.rounding))
        return codes.div_(scale).to(values.dtype)

    def headroom(self, values: Tensor) -> Tensor:
        """Count from half a step beyond the range; nothing saturates where codes wrap."""
        if self.overflow == "wrap":
            return torch.zeros_like(values)
        scale = 2.0**-self.frac_width
        low, high = (self.minimum_code - 0.5) * scale, (self.maximum_code + 0.5) * scale
        return torch.minimum(values - low, high - values)

    def clipped(self, values: Tensor) -> int:
        """Look at the extremes first: mostly nothing saturates."""
        if not values.numel() or bool(self.in_range(torch.stack(torch.aminmax(values))).all()):
            return 0
        return super().clipped(values)

    def encode(self, values: Tensor) -> Tensor:
        if values.numel() <= ENCODED_ELEMENTS:
            return self._encode(values)
        codes = torch.empty(values.shape, dtype=torch.int64, device=values.device)
        parts = torch.split(values.detach().reshape(-1), ENCODED_ELEMENTS)
        for own, part in zip(torch.split(codes.view(-1), ENCODED_ELEMENTS), parts, strict=True):
            own.copy_(self._encode(part))
        return codes

    def _encode(self, values: Tensor) -> Tensor:
        scaled = values.detach().double() * 2.0**self.frac_width
        low, high = map(float, torch.aminmax(scaled)) if scaled.numel() else (0.0, 0.0)
        if math.isnan(low):
            raise FormatError(f"{self} has no code for NaN; the data holds at least one")
        if self.minimum_code <= low and high <= self.maximum_code:
            return _round(scaled, self.rounding).to(torch.int64)
        if self.overflow == "saturate":
            scaled = scaled.clamp(self.minimum_code - 1, self.maximum_code + 1)
        else:
            scaled = self._bound_infinities(scaled)
            if bool((scaled.abs() >= 2.0**62).any()):
                raise FormatError(f"{self} wraps codes up to 62 bits; the data exceeds that")
        return self._bound(_round(scaled, self.rounding).to(torch.int64))

    def decode(self, codes: Tensor) -> Tensor:
        return codes.double() * 2.0**-self.frac_width

    def from_fixed(self, codes: Tensor, frac_width: int) -> Tensor:
        """Shift, round and bound exact int64 codes of `frac_width` fraction bits."""
        shift = frac_width - self.frac_width
        if shift > 62:
            shift, codes = 62, _sticky_shift(codes, shift - 62)
        if shift <= 0:
            return self._bound(self._shift_left(codes, -shift))
        return self._bound(_round_shift(codes, shift, self.rounding))

    def _shift_left(self, codes: Tensor, shift: int) -> Tensor:
        """Shift left without int64 overflow: what leaves the range saturates, or wraps."""
        if shift == 0:
            return codes
        if self.overflow == "wrap":
            return codes << shift if shift < 64 else torch.zeros_like(codes)
        limit = (1 << max(63 - shift, 0)) - 1
        shifted = codes.clamp(-limit, limit) << min(shift, 62)
        return torch.where(codes == 0, codes, shifted) if shift < 63 else codes.sign() << 62

    def _bound(self, codes: Tensor) -> Tensor:
        """Return codes in the range; reals that are whole may be changed themselves."""
        if self.overflow == "saturate":
            ends = self.minimum_code, self.maximum_code
            return codes.clamp_(*ends) if codes.is_floating_point() else codes.clamp(*ends)
        modulus = 1 << self.width
        if codes.is_floating_point():
            codes = self._bound_infinities(codes)
            return codes - torch.floor((codes - self.minimum_code) / modulus) * modulus
        return ((codes - self.minimum_code) & (modulus - 1)) + self.minimum_code

    def _bound_infinities(self, codes: Tensor) -> Tensor:
        return torch.where(codes.isinf(), codes.clamp(self.minimum_code, self.maximum_code), codes)

    @property
    def integer_fraction(self) -> int:
        """Codes are integers in units of the last fraction bit."""
        return self.frac_width

    def to_integers(self, codes: Tensor) -> Tensor:
        return codes

    def stream_fields(self, lanes: int, rows: int = 1) -> tuple[StreamField, ...]:
        return (StreamField("", lanes, self.width),)

    def to_fields(self, codes: Tensor, rows: int = 1) -> dict[str, Tensor]:
        return {"": codes & ((1 << self.width) - 1)}

    def from_fields(self, fields: Mapping[str, Tensor]) -> Tensor:
        bits = fields[""]
        if not self.signed:
            return bits
        sign = 1 << (self.width - 1)
        return (bits ^ sign) - sign

    @cached_property
    def encoding(self) -> Encoding:
        return Encoding(
            self.width,
            fraction=self.frac_width,
            signed=self.signed,
            rounding=Rounding[self.rounding.upper()],
            overflow=Overflow[self.overflow.upper()],
        )

    def random_codes(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        return torch.randint(
            self.minimum_code, self.maximum_code + 1, tuple(shape), generator=generator
        )

    def scaled(self, octaves: float) -> Fixed:
        frac_width = self.frac_width - round(octaves)
        return replace(self, frac_width=max(-MAX_FRAC_WIDTH, min(frac_width, MAX_FRAC_WIDTH)))

    def of_least_error(self, values: Tensor) -> Fixed:
        """Return the format with the fraction of the least squared error."""
        best, least = self, self._squared_error(values)
        for more in LONGER:
            if least == 0.0 or self.frac_width + more > MAX_FRAC_WIDTH:
                break
            longer = replace(self, frac_width=self.frac_width + more)
            error = longer._squared_error(values)
            if GAIN * error < least:
                best, least = longer, error
        return best

    def _squared_error(self, values: Tensor) -> float:
        wide = values.detach().double()
        return float((self.round_values(wide) - wide).square().sum())

    @classmethod
    def fit(cls, minimum: float, maximum: float, **fields: Setting) -> Fixed:
        """Return the format with the largest `frac_width` that does not saturate the range."""
        if "width" in fields:
            check_integer("fixed", "width", fields["width"], MIN_WIDTH_BITS, MAX_WIDTH_BITS)
        open_format = cls(**{**fields, "frac_width": fields.get("frac_width", 0)})
        if "frac_width" in fields:
            return open_format
        highest = open_format.maximum_code / max(maximum, 1e-12) if maximum > 0 else math.inf
        lowest = open_format.minimum_code / minimum if minimum < 0 else math.inf
        if not open_format.signed:
            lowest = math.inf
        ratio = min(highest, lowest)
        frac_width = open_format.width - 1 if math.isinf(ratio) else math.floor(math.log2(ratio))
        return cls(**{**fields, "frac_width": max(-MAX_FRAC_WIDTH, min(frac_width, 32))})

    @classmethod
    def choices(cls, row: int, channel_axis: int | None = None) -> Sequence[Table]:
        return [{"width": width} for width in TRIED_WIDTHS]

    @property
    def _whole_bits(self) -> int:
        """Bits in front of the point, without the sign."""
        return self.width - self.frac_width - self.signed

    @classmethod
    def covering(cls, formats: Sequence[Format], minimum: float, maximum: float) -> Fixed:
        """Return the steps of the finest, up to the largest value or the end of the furthest.

        Where that takes more than `MAX_WIDTH_BITS`, the range stays and the steps grow.
        """
        fixed = [item for item in formats if isinstance(item, Fixed)]
        finest = max(fixed, key=lambda item: (item.frac_width, item.width))
        signed = any(item.signed for item in fixed)
        reached = cls.fit(minimum, maximum, width=MAX_WIDTH_BITS, signed=signed)._whole_bits
        furthest = max(item._whole_bits for item in fixed)
        whole = max(finest._whole_bits, min(furthest, reached))
        frac = min(finest.frac_width, max(MAX_WIDTH_BITS, finest.width) - signed - whole)
        modes = {(item.rounding, item.overflow) for item in fixed}
        rounding, overflow = modes.pop() if len(modes) == 1 else (cls.rounding, cls.overflow)
        width = max(MIN_WIDTH_BITS, whole + frac + signed)
        return cls(width, frac, signed, rounding, overflow)


def _round(scaled: Tensor, rounding: str) -> Tensor:
    """Return whole numbers, in place of `scaled` where that can be."""
    if rounding == "nearest_even":
        return scaled.round_()
    if rounding == "nearest_up":
        below = torch.floor(scaled)
        return below + (scaled - below >= 0.5)
    return torch.floor(scaled) if rounding == "floor" else torch.trunc(scaled)


def _round_shift(codes: Tensor, shift: int, rounding: str) -> Tensor:
    """Return `codes / 2**shift` rounded, exact in int64 for `shift` up to 62."""
    floor = codes >> shift
    if rounding == "floor":
        return floor
    rest = codes - (floor << shift)
    if rounding == "toward_zero":
        return floor + ((codes < 0) & (rest != 0))
    half = 1 << (shift - 1)
    if rounding == "nearest_up":
        return floor + (rest >= half)
    return floor + ((rest + (floor & 1)) > half)


def _sticky_shift(codes: Tensor, shift: int) -> Tensor:
    """Return `codes >> shift` with the lost bits collected in bit 0."""
    shift = min(shift, 62)
    floor = codes >> shift
    return floor | (codes != (floor << shift)).to(torch.int64)
