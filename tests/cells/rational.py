"""Rational arithmetic that cells are compared with, for all inputs: written apart from them.

What is computed, exactly, and then the value of the result's format that its rounding and overflow
choose, out of a list of all of them. Nothing of `mase_hw.arithmetic` is used.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import torch

from mase_hw.cells import Cell
from mase_hw.formats import Format
from mase_hw.formats.fixed import Fixed
from tests.rtl_bench import Bench, Case, cell_case

HALF = Fraction(1, 2)


def bits_of(number: Format, codes: torch.Tensor) -> list[int]:
    return number.to_fields(codes.reshape(-1, 1), 1)[""].reshape(-1).tolist()


def values_of(number: Format) -> dict[int, Fraction]:
    """Return the value of every pattern of bits that is a number."""
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


def fixed_pattern(number: Fixed, value: Fraction) -> int:
    """Return the bits of the code of a value in fixed point."""
    code = rounded(value * Fraction(2) ** number.frac_width, number.rounding)
    low = -(2 ** (number.width - 1)) if number.signed else 0
    high = low + 2**number.width - 1
    if number.overflow == "saturate":
        code = min(max(code, low), high)
    return code % 2**number.width


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


def simulated(claims: Mapping[str, Claim], folder: Path) -> dict[str, list[int]]:
    """Return the results of cells by the names of the claims, in one build without pauses."""
    short = {name: f"c{number}" for number, name in enumerate(claims)}
    cases: list[Case] = [
        cell_case(short[name], claim.cell, claim.inputs) for name, claim in claims.items()
    ]
    outputs = Bench(cases, folder).run("none")
    return {name: outputs[short[name]].beats for name in claims}


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
