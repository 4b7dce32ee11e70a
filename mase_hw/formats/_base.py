"""The contract of a number format: reals to integer codes and back, and its shape in hardware."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mase_hw._kinds import Record, Table
from mase_hw.errors import FormatError
from mase_hw.formats._encoding import Encoding

# Of a width below, a format has a handful of values.
MIN_FACTOR_BITS = 3


@dataclass(frozen=True)
class StreamField:
    """One signal of a stream's payload, `[lanes-1:0][width_bits-1:0]` with lane 0 in the low bits.

    Attributes:
        suffix: appended to the stream's name ("" for the elements themselves).
        lanes: values moved per beat.
        width_bits: bits of one value.
    """

    suffix: str
    lanes: int
    width_bits: int


class _StraightThrough(torch.autograd.Function):
    """Forward: the quantised values. Backward: the gradient, zero where the format saturates."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, number_format: Format) -> Tensor:
        ctx.save_for_backward(values)
        ctx.number_format = number_format
        return number_format.round_values(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (values,) = ctx.saved_tensors
        # One where there is room, else zero; a float all the way, because a compiled graph would
        # store a comparison's result as bytes, which takes longer than everything else here.
        # The factor makes a normal number above 1 of the smallest subnormal one.
        limits = torch.finfo(values.dtype)
        steep = ctx.number_format.headroom(values) * (2 / limits.eps) / limits.tiny
        mask = torch.fmax(steep + 1, torch.zeros((), dtype=values.dtype, device=values.device))
        return gradients[0] * mask.clamp(max=1), None


@dataclass(frozen=True)
class Format(ABC):
    """A set of representable reals and their integer codes.

    Subclasses are frozen dataclasses whose fields are the parameters a configuration may set: the
    key `weight_frac_width` sets the field `frac_width` of the format of the operand `weight`.
    The constructor validates every field and raises `FormatError` with the value it got.

    Attributes:
        name: the word a configuration uses.
        aliases: other words that resolve to this format.
        abbreviation: the word used in the names of SystemVerilog modules.
        inherited: fields that an operand without fields of its own takes from the first operand.
        fitted: fields that `fit` and `fit_values` choose where they are open.
        scale_follows_data: whether the field `scale` may be None, taken from each tensor.
        exact_bits: bits of the magnitudes that `from_scaled` takes.
        sparse: whether values lie so far apart that rounding is a part of a model's function, not
            an error of it: signs, powers of two.
        rounds: whether it is a format at all, and not the word for none.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    abbreviation: ClassVar[str]
    inherited: ClassVar[tuple[str, ...]] = ("width", "signed")
    fitted: ClassVar[tuple[str, ...]] = ()
    scale_follows_data: ClassVar[bool] = False
    exact_bits: ClassVar[int] = 62
    sparse: ClassVar[bool] = False
    rounds: ClassVar[bool] = True

    @abstractmethod
    def round_values(self, values: Tensor) -> Tensor:
        """Return the nearest representable reals, same shape and dtype as `values`."""

    @abstractmethod
    def headroom(self, values: Tensor) -> Tensor:
        """Return how far `values` are from where they saturate: negative beyond, NaN for NaN.

        The unit is the format's choice, the dtype that of `values`.
        """

    def fits_lanes(self, lanes: int) -> bool:
        """True if a beat may move so many elements of a row; blocks take whole beats."""
        return True

    def in_range(self, values: Tensor) -> Tensor:
        """Return a bool tensor: true where `values` does not saturate (the gradient passes)."""
        return self.headroom(values) >= 0

    def clipped(self, values: Tensor) -> int:
        """Return how many of `values` saturate; none where rounding is not an error."""
        return 0 if self.sparse else int((self.headroom(values) < 0).sum())

    @abstractmethod
    def encode(self, values: Tensor) -> Tensor:
        """Return the int64 codes of the nearest representable reals.

        A code identifies its value alone: a format with a shared exponent packs the exponent above
        the element's own bits, so that codes have the shape of the values for every format.

        Raises:
            FormatError: for data the format does not define (NaN, say).
        """

    @abstractmethod
    def decode(self, codes: Tensor) -> Tensor:
        """Return the float64 values of int64 `codes`."""

    @abstractmethod
    def from_fixed(self, codes: Tensor, frac_width: int) -> Tensor:
        """Return the codes of the exact reals `codes * 2**-frac_width` (the RTL's cast).

        Args:
            codes: int64 exact intermediate results, accumulators for example.
            frac_width: their fraction bits.
        """

    def from_scaled(self, integers: Tensor, exponents: Tensor) -> Tensor:
        """Return the codes of the exact reals `integers * 2**exponents`, element by element.

        Args:
            integers: int64 of magnitude below `2**exact_bits`.
            exponents: int64 of the same shape.
        """
        codes = torch.zeros_like(integers)
        for exponent in torch.unique(exponents).tolist():
            chosen = exponents == exponent
            codes[chosen] = self.from_fixed(integers[chosen], -exponent)
        return codes

    @property
    def real_scale(self) -> Fraction:
        """The factor of all values that is no power of two, which casts multiply by; 1 for none.

        Raises:
            FormatError: when channels differ in it.
        """
        return Fraction(1)

    def unscaled(self) -> Format:
        """Return the format of the values over `real_scale`."""
        return self

    def significands(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the exact values over `real_scale` as int64 significands and exponents of two.

        Raises:
            FormatError: when the values have no common unit.
        """
        fraction = self.integer_fraction
        if fraction is None:
            raise FormatError(f"{self} has no common unit of its values")
        integers = self.to_integers(codes)
        return integers, torch.full_like(integers, -fraction)

    @property
    def integer_fraction(self) -> int | None:
        """Fraction bits in which every value is an integer; None where there is no such number."""
        return None

    def to_integers(self, codes: Tensor) -> Tensor:
        """Return the values of codes in units of `2**-integer_fraction`, int64.

        Raises:
            FormatError: when there is no `integer_fraction`.
        """
        raise FormatError(f"{self} has no common unit of its values")

    @property
    @abstractmethod
    def bits_per_element(self) -> float:
        """Storage bits of one element, shared parts included."""

    @abstractmethod
    def stream_fields(self, lanes: int, rows: int = 1) -> tuple[StreamField, ...]:
        """Return the payload signals of a beat.

        Args:
            lanes: elements of a beat.
            rows: rows of the tile that the beat holds; a block never spans rows.
        """

    @abstractmethod
    def to_fields(self, codes: Tensor, rows: int = 1) -> dict[str, Tensor]:
        """Split beats of int64 codes `[beats, lanes]`, tiles of `rows`, into payloads by suffix.

        Each payload is int64 `[beats, field lanes]`, non-negative bit patterns.
        """

    @abstractmethod
    def from_fields(self, fields: Mapping[str, Tensor]) -> Tensor:
        """Undo `to_fields`: bit patterns `[beats, field lanes]` to codes `[beats, lanes]`."""

    @property
    def encoding(self) -> Encoding:
        """How hardware reads these codes, and makes them of exact values.

        A format that gives it has hardware wherever its family of encodings has.

        Raises:
            FormatError: for a format that is for software alone.
        """
        raise FormatError(f"{self} has no codes in hardware")

    @classmethod
    @abstractmethod
    def fit(cls, minimum: float, maximum: float, **fields: object) -> Format:
        """Return the format with `fields` whose open fields suit reals in `[minimum, maximum]`."""

    @classmethod
    def fit_values(cls, values: Tensor, **fields: object) -> Format:
        """Return the format with `fields` whose open fields suit known `values`."""
        if not values.numel():
            return cls.fit(0.0, 0.0, **fields)
        low, high = (float(value) for value in torch.aminmax(values))
        if not (math.isfinite(low) and math.isfinite(high)):
            raise FormatError("a constant holds what is no finite number; give a finite one")
        return cls.fit(low, high, **fields)

    def of_least_error(self, values: Tensor) -> Format:
        """Return the format of this kind that rounds constants best, whether it holds all or not.

        Args:
            values: the constants to which this one was fitted.
        """
        return self

    @classmethod
    def covering(cls, formats: Sequence[Format], minimum: float, maximum: float) -> Format | None:
        """Return one format for those who take values in `[minimum, maximum]` in any of `formats`.

        Its steps are as small as the smallest of theirs, and it reaches as far as the values do or
        the furthest of them. None for a family whose range follows the values by itself: the one
        that loses least serves all.

        Args:
            formats: two formats of this class, or more.
            minimum: the least value.
            maximum: the largest value.
        """
        return None

    def scaled(self, octaves: float) -> Self | None:
        """Return the format whose values are `2**octaves` times these, to the nearest it has.

        None for a format whose scale is fixed, or follows the values by itself.
        """
        return None

    @classmethod
    def takes_factors(cls, fields: Mapping[str, object]) -> bool:
        """True if factors may be multiplied into a tensor before it is rounded.

        Where values are few, a factor for each channel is lost, and the function with it.

        Args:
            fields: those that are known, by name.
        """
        width = fields.get("width")
        return not cls.sparse and not (isinstance(width, int) and width < MIN_FACTOR_BITS)

    @classmethod
    def of_channels(cls, channels: Sequence[Self], **fields: object) -> Self:
        """Return the format of a tensor from the formats of its channels, in order.

        Raises:
            FormatError: for a format that is one for the whole tensor.
        """
        raise FormatError(f"{cls.name} has one set of parameters for a tensor, not one a channel")

    @classmethod
    def choices(cls, row: int, channel_axis: int | None = None) -> Sequence[Table]:
        """Return the fields, one set each, with which a choice of formats tries this one.

        What is not among them is open, and fitted. None for a format that nobody tries.

        Args:
            row: elements of the tensor along the dimension of blocks.
            channel_axis: of a constant the dimension that counts results, None of what streams.
        """
        return ()

    @abstractmethod
    def random_codes(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        """Return int64 codes drawn uniformly from all codes of finite values."""

    def fake_quantize(self, values: Tensor) -> Tensor:
        """Return the nearest representable reals with a straight-through gradient.

        The gradient is zero where the format saturates (Bengio et al. 2013, arXiv:1308.3432, with
        the clipping mask of Hubara et al. 2016, arXiv:1609.07061).
        """
        result: Tensor = _StraightThrough.apply(values, self)  # type: ignore[no-untyped-call]
        return result

    def at_inference(self) -> Format:
        """Return the format with which a trained model runs: this one, without chance."""
        return self

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Return the names of the parameters a configuration may set."""
        return tuple(field.name for field in dataclasses.fields(cls))

    def to_dict(self) -> Record:
        """Return `{"name": ..., field: value, ...}`, which `mase_hw.formats.make_format` reads."""
        return {"name": self.name, **dataclasses.asdict(self)}
