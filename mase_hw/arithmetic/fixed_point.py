"""Exact arithmetic on fixed-point codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from mase_hw.arithmetic.carriers import fixed_of
from mase_hw.errors import UnsupportedError
from mase_hw.formats import Format
from mase_hw.formats.fixed import MAX_EXACT_BITS, MIN_WIDTH_BITS, Fixed
from mase_hw.geometry.tensor import TensorSpec

MAX_BITS = 62
# What is computed of operands of one fraction, and what gives 1 where it holds, else 0.
ALIGNED: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
}
RELATIONS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "equal": torch.eq,
    "not_equal": torch.ne,
}


def fixed(spec: TensorSpec) -> Fixed:
    """Return the fixed-point format of a tensor.

    Raises:
        UnsupportedError: when the tensor has another format, or none.
    """
    if not isinstance(spec.format, Fixed):
        raise UnsupportedError(f"{spec.format} is not fixed point")
    return spec.format


def too_wide(bits: Callable[..., int], **formats: Fixed) -> list[str]:
    """Message for exact results that take more than `MAX_BITS`; empty where they do not.

    Args:
        bits: returns what they take, given the formats of the operands by name.
        formats: those that they have.
    """
    asked = bits(**formats)
    if asked <= MAX_BITS:
        return []
    fixes = [
        f"{name} of {width} bits"
        for name, number in formats.items()
        if (width := _widest(partial(_with, bits, formats, name), number))
    ]
    fix = f"{' or '.join(fixes)} would do" if fixes else "use narrower operands"
    return [f"its exact results take {asked} bits, at most {MAX_BITS} are supported: {fix}"]


def _with(bits: Callable[..., int], formats: Mapping[str, Fixed], name: str, number: Fixed) -> int:
    """Bits of results where one operand has another format."""
    return bits(**{**formats, name: number})


def _widest(bits: Callable[[Fixed], int], number: Fixed) -> int | None:
    """Return the largest width of an operand, of the same range, that does; None for none."""
    for width in range(number.width - 1, MIN_WIDTH_BITS - 1, -1):
        fraction = number.frac_width - number.width + width
        if bits(replace(number, width=width, frac_width=fraction)) <= MAX_BITS:
            return width
    return None


def is_fixed(*specs: TensorSpec) -> bool:
    """True if all tensors are fixed point."""
    return all(isinstance(spec.format, Fixed) for spec in specs)


def align(codes: Tensor, number_format: Fixed, frac_width: int) -> Tensor:
    """Return `codes` with `frac_width` fraction bits, at least those of `number_format`."""
    return codes << (frac_width - number_format.frac_width)


def combine(
    first: Tensor, second: Tensor, operation: str, formats: tuple[Fixed, Fixed]
) -> tuple[Tensor, int]:
    """Return exact int64 codes of an operation, and their fraction bits.

    Args:
        first: codes of the first operand.
        second: codes of the second one.
        operation: `multiply`, or one of `ALIGNED` or `RELATIONS`.
        formats: those of the operands.
    """
    if operation == "multiply":
        return first * second, formats[0].frac_width + formats[1].frac_width
    fraction = max(number.frac_width for number in formats)
    left, right = align(first, formats[0], fraction), align(second, formats[1], fraction)
    if operation in RELATIONS:
        return RELATIONS[operation](left, right).to(torch.int64), 0
    return ALIGNED[operation](left, right), fraction


def combined_bits(operation: str, first: Fixed, second: Fixed) -> int:
    """Return the bits of an exact result.

    Products add the widths, and one for an unsigned operand; sums take one bit more than the wider
    aligned operand with a sign.
    """
    if operation == "multiply":
        return first.width + second.width + (not first.signed) + (not second.signed)
    fraction = max(first.frac_width, second.frac_width)
    return 1 + max(
        number.width + fraction - number.frac_width + (not number.signed)
        for number in (first, second)
    )


def exact_combination(operation: str, first: Fixed, second: Fixed) -> Fixed | None:
    """Return a format of all exact results; None where there is none."""
    fraction = max(first.frac_width, second.frac_width)
    if operation == "multiply":
        fraction = first.frac_width + second.frac_width
    return fixed_of(combined_bits(operation, first, second), fraction)


def is_whole(values: Tensor) -> bool:
    """True if all are finite and whole, of whatever dtype: a Python number has none."""
    if not values.is_floating_point():
        return True
    return bool(values.isfinite().all()) and bool((values == values.round()).all())


def bounds_of(values: Tensor) -> tuple[int, int]:
    """Return the least and the largest of whole numbers."""
    low, high = values.aminmax()
    return int(low), int(high)


def whole_format(low: int, high: int, least: int = 0) -> Fixed:
    """Return the narrowest format of the numbers from `low` to `high`, of 62 bits at most.

    Args:
        low: the least number; below zero the format has a sign.
        high: the largest.
        least: bits that it has at least.
    """
    bits = max((low + 1 if low < 0 else 0).bit_length(), high.bit_length()) + (low < 0)
    return Fixed(min(MAX_EXACT_BITS, max(MIN_WIDTH_BITS, least, bits)), 0, signed=low < 0)


def joined(formats: Sequence[Format | None], *, signed: bool) -> Fixed | None:
    """Return the narrowest format of what formats of whole numbers hold; None for other formats.

    Args:
        formats: the formats.
        signed: whether there are numbers below zero.
    """
    whole = [item for item in formats if isinstance(item, Fixed) and item.frac_width == 0]
    if not whole or len(whole) < len(formats):
        return None
    low = min(item.minimum_code for item in whole) if signed else 0
    return whole_format(low, max(item.maximum_code for item in whole))
