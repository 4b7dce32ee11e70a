"""Rational arithmetic that cells are compared with, for all inputs: written apart from them.

What is computed, exactly, and then the value of the result's format that its rounding and overflow
choose, out of a list of all of them. Nothing of `mase_hw.arithmetic` is used.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import torch

from mase_hw.cells import Cell
from mase_hw.formats import Format
from mase_hw.formats.fixed import Fixed
from tests.rtl_bench import Bench, cell_case

HALF = Fraction(1, 2)


def bits_of(number: Format, codes: torch.Tensor) -> list[int]:
    return number.to_fields(codes.reshape(-1, 1), 1)[""].reshape(-1).tolist()


@cache
def values_of(number: Format) -> dict[int, Fraction]:
    width = number.encoding.width
    patterns = torch.arange(1 << width)
    codes = number.from_fields({"": patterns.reshape(-1, 1)}).reshape(-1)
    values = number.decode(codes).double().tolist()
    again = bits_of(number, codes)
    return {
        pattern: Fraction(value)
        for pattern, value, back in zip(patterns.tolist(), values, again, strict=True)
        if math.isfinite(value) and back == pattern
    }


def rounded(value: Fraction, mode: str) -> int:
    """Return an integer, as IEEE 754 names the directions."""
    below = math.floor(value)
    rest = value - below
    if mode == "floor" or not rest:
        return below
    if mode == "toward_zero":
        return below + (value < 0)
    if rest == HALF:
        return below + 1 if mode == "nearest_up" else below + below % 2
    return below + (rest > HALF)


def down(value: Fraction, bits: int) -> Fraction:
    return Fraction(math.floor(value * 2**bits), 2**bits)


def nearest(value: Fraction, bits: int) -> Fraction:
    return Fraction(rounded(value * 2**bits, "nearest_up"), 2**bits)


def fixed_code(number: Fixed, value: Fraction) -> int:
    code = rounded(value * Fraction(2) ** number.frac_width, number.rounding)
    low = -(2 ** (number.width - 1)) if number.signed else 0
    if number.overflow == "wrap":
        return (code - low) % 2**number.width + low
    return min(max(code, low), low + 2**number.width - 1)


def fixed_pattern(number: Fixed, value: Fraction) -> int:
    return fixed_code(number, value) % 2**number.width


def float_pattern(number: Format, value: Fraction) -> int:
    """Return the bits of the nearest value, the one with an even mantissa of two."""
    values = values_of(number)
    distance = min(abs(value - item) for item in values.values())
    near = [pattern for pattern, item in values.items() if abs(value - item) == distance]
    even = [pattern for pattern in near if pattern % 2 == 0] or near
    # A zero has the sign of what was rounded, or none where that has none.
    signed = [item for item in even if (item >> (number.encoding.width - 1)) == (value < 0)]
    return (signed or even)[0]


def pattern(number: Format, value: Fraction) -> int:
    if isinstance(number, Fixed):
        return fixed_pattern(number, value)
    return float_pattern(number, value)


@dataclass(frozen=True)
class Claim:
    """A cell, its inputs by port, and the bits of each result."""

    cell: Cell
    inputs: dict[str, list[int]]
    wanted: list[int]

    @property
    def count(self) -> int:
        """How many results there are."""
        return len(self.wanted)


Simulated = Mapping[str, tuple[Claim, list[int]]]


def simulated(claims: Mapping[str, Callable[[], Claim]], folder: Path) -> Simulated:
    """Return claims and the results of their cells by name, in one build without pauses."""
    made = {name: claim() for name, claim in claims.items()}
    cases = [
        cell_case(f"c{number}", claim.cell, claim.inputs)
        for number, claim in enumerate(made.values())
    ]
    longest = max(len(beats) for case in cases for _, beats in case.inputs.values())
    outputs = Bench(cases, folder).run("none", timeout_cycles=longest + 1000)
    return {
        name: (claim, outputs[case.name].beats)
        for (name, claim), case in zip(made.items(), cases, strict=True)
    }


def check(claim: Claim, beats: list[int]) -> None:
    """Fail where a result is not what was wanted, with the inputs of the first ones."""
    assert len(beats) == claim.count
    pairs = enumerate(zip(beats, claim.wanted, strict=True))
    wrong = [place for place, (found, wanted) in pairs if found != wanted]
    shown = []
    for place in wrong[:5]:
        given = {}
        for port, bits in claim.inputs.items():
            each = len(bits) // claim.count
            given[port] = bits[place * each : (place + 1) * each]
        shown.append((given, beats[place], claim.wanted[place]))
    assert not wrong, shown
