"""What element-wise operators share: their netlist, their formats and how those are decoded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mase_hw.cells import Cell, Netlist, NetlistBuilder, Port, RomSource, Wire
from mase_hw.errors import UnsupportedError
from mase_hw.formats import Format
from mase_hw.formats._encoding import Encoding, Family
from mase_hw.formats._minifloat import FloatFormat
from mase_hw.formats.fixed import Fixed
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._base import Call
from mase_hw.ops._scaled import INFINITE_EXPONENT, Scaled

ELEMENTWISE = frozenset({Family.FIXED, Family.FLOAT, Family.INTEGER_BLOCK})


@dataclass(frozen=True)
class Decoded:
    """The elements of a float or fixed-point tensor.

    Attributes:
        values: the numbers; an infinity is `2**INFINITE_EXPONENT` with its sign.
        is_nan: true where there is no number.
        is_infinite: true for infinities.
        is_negative: the signs, which zero has, too.
    """

    values: Scaled
    is_nan: Tensor
    is_infinite: Tensor
    is_negative: Tensor


def fields(call: Call) -> tuple[Encoding, Encoding, int]:
    """Return the first fields of a cell: encodings of first operand and result, and lanes."""
    data, result = call.operands["data_in_0"].quantized, call.result
    return data.encoding, result.quantized.encoding, result.lanes


def row_fields(call: Call) -> tuple[Encoding, Encoding, int, int, int]:
    """Return those of a cell that knows rows: lanes of a row, rows, and elements of a row."""
    data, result, _ = fields(call)
    rows, lanes = call.result.parallelism
    return data, result, lanes, rows, call.result.size[1]


def one_cell(call: Call, cell: Cell) -> Netlist:
    """Return a cell that takes every operand; constants come from memories."""
    net = NetlistBuilder({name: Port.of(spec) for name, spec in call.streams.items()})
    wires: dict[str, Wire] = {
        name: net.memory(name, constant_memory(call, name))
        if name in call.constants
        else net.input(name)
        for name in call.operands
    }
    return net.netlist(data_out_0=net.add(cell, "", **wires))


def constant_memory(call: Call, name: str) -> RomSource:
    """Return the shortest memory that delivers a constant beat for beat with the result.

    Trailing beats that repeat become `hold`, leading repetitions become one period.
    """
    spec = replace(call.result, format=call.operands[name].format)

    def shortest() -> tuple[Tensor, int]:
        codes = call.once(f"codes of {name}", lambda: call.constant_codes(name))
        beats = spec.to_beats(codes.broadcast_to(spec.shape))
        hold = max(n for n in _divisors(len(beats)) if _blocks(beats, n).eq(beats[::n, None]).all())
        beats = beats[::hold]
        period = min(n for n in _divisors(len(beats)) if _blocks(beats, n).eq(beats[:n]).all())
        return beats[:period], hold if period > 1 else 1

    tiles = f"{spec.parallelism} {spec.order}"
    beats, hold = call.once(f"beats of {name}, {tiles}", shortest)
    return RomSource.of_beats(spec, len(beats), lambda: beats, hold=hold)


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _blocks(beats: Tensor, length: int) -> Tensor:
    return beats.view(-1, length, beats.shape[-1])


def is_all_fixed(call: Call) -> bool:
    """Return whether everything is fixed point."""
    return all(isinstance(spec.format, Fixed) for spec in _specs(call))


def _specs(call: Call) -> list[TensorSpec]:
    return [*call.operands.values(), *call.results.values()]


def decode(number: Format, codes: Tensor) -> Decoded:
    """Return the elements of a float or fixed-point format."""
    if isinstance(number, Fixed):
        values = Scaled(codes, torch.full_like(codes, -number.frac_width))
        never = torch.zeros_like(codes, dtype=torch.bool)
        return Decoded(values, never, never, codes < 0)
    layout = float_format(number).layout
    negative = codes & layout.sign != 0
    special = codes & (layout.sign - 1) > layout.maximum_code
    infinite = special & (codes & (layout.sign - 1) == layout.infinity_code)
    infinite &= torch.tensor(layout.specials == "ieee")
    integers, exponents = layout.scaled(codes)
    unit = torch.where(negative, -1, 1)
    values = Scaled(
        torch.where(infinite, unit, integers), torch.where(infinite, INFINITE_EXPONENT, exponents)
    )
    return Decoded(values, special & ~infinite, infinite, negative)


def encode(number: Format, values: Scaled, is_nan: Tensor, is_negative: Tensor) -> Tensor:
    """Return the codes of a float or fixed-point format; `is_negative` is the sign of zeros."""
    codes = number.from_scaled(values.integers, values.exponents)
    if isinstance(number, FloatFormat):
        zero = (values.integers == 0) & is_negative
        codes = torch.where(zero, number.layout.sign, codes)
    return torch.where(is_nan, nan_code(number), codes)


def nan_code(number: Format) -> int:
    """Return the code that stands for NaN: the largest number where there is no NaN.

    As conversions do on GPUs: NVIDIA, "PTX ISA" 8.6, section 9.7.9, instruction cvt.
    """
    if isinstance(number, Fixed):
        return number.maximum_code
    layout = float_format(number).layout
    return layout.maximum_code if layout.nan_code is None else layout.nan_code


def float_format(number: Format) -> FloatFormat:
    """Return a float format.

    Raises:
        UnsupportedError: when it is another one.
    """
    if not isinstance(number, FloatFormat):
        raise UnsupportedError(f"{number} is no float")
    return number


def integer_bits(number: Format) -> int:
    """Return the bits of an element's integer, sign included."""
    if isinstance(number, Fixed):
        return number.width + (not number.signed)
    return float_format(number).layout.mantissa_width + 2


def precision_bits(number: Format) -> int:
    """Return the bits of the largest result's significand."""
    if isinstance(number, Fixed):
        return number.width
    return float_format(number).layout.mantissa_width + 1
