"""Small cells that compute functions equal a definition written apart from them, for all inputs.

Real functions are those of `real`, all others are evaluated in rational numbers.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from mase_hw.approximation.piecewise import GUARD_BITS, Piecewise, fit
from mase_hw.approximation.table import FunctionTable
from mase_hw.arithmetic.floats import (
    has_infinity,
    integer_bits,
    nan_code,
    overflow_code,
    precision_bits,
)
from mase_hw.arithmetic.scaled import guard_bits
from mase_hw.cells import Image, Operation
from mase_hw.cells.argmax import Argmax
from mase_hw.cells.binary_fixed import BinaryFixed
from mase_hw.cells.binary_float import BinaryFloat
from mase_hw.cells.clamp_fixed import ClampFixed
from mase_hw.cells.float_order import FloatOrder
from mase_hw.cells.lookup import Lookup
from mase_hw.cells.phase import Phase
from mase_hw.cells.prelu_fixed import PreluFixed
from mase_hw.cells.reduce import Reduce
from mase_hw.cells.scalar_accumulate import ScalarAccumulate
from mase_hw.cells.thresholds import Thresholds
from mase_hw.cells.unary_piecewise import UnaryPiecewise
from mase_hw.cells.unary_table import UnaryTable
from mase_hw.cells.where_fixed import WhereFixed
from mase_hw.formats import Encoding, Format, make_format
from mase_hw.formats.fixed import ROUNDING_MODES, Fixed
from mase_hw.ops._fixed_elements import _piecewise_cell
from tests.cells.rational import Claim, check, fixed_pattern, float_pattern, pattern, values_of
from tests.cells.real import REALS


def table(name: str, operand: Fixed, result: Fixed) -> Claim:
    """A word for every pattern of the operand."""
    function, exact = REALS[name]
    words = FunctionTable.tabulate(function, operand, result).words
    values = values_of(operand)
    image = Image(result.encoding.width, lambda: words)
    cell = UnaryTable(operand.encoding, result.encoding, 1, image, beats=len(values))
    wanted = [fixed_pattern(result, exact(value)) for value in values.values()]
    return Claim(cell, {"data_in_0": list(values)}, wanted)


def fitted(name: str, operand: Fixed, result: Fixed) -> Piecewise:
    return fit(REALS[name][0], [], operand, result, name)


def on_segments(fitted: Piecewise, code: int) -> Fraction:
    """Return the quadratic of a code, in steps of the result, as the module's header says."""
    below = [number for number, item in enumerate(fitted.regions) if item.low <= code]
    place = max(below, default=0)
    region, grid = fitted.regions[place], fitted.grid
    distance = abs(code - (region.low if region.upward else region.high))
    octave, low, size = 0, 0, 2**grid.base_exponent
    while distance >= low + size:
        low, size, octave = low + size, size if not octave else 2 * size, octave + 1
    position = Fraction(distance - low, size) * 2**grid.index_bits
    offset = position - int(position)
    row = fitted.bases[place] + (octave << grid.index_bits) + int(position)
    c0, c1, c2 = fitted.coefficients[row].tolist()
    slope = c1 + c2 * offset // 1
    return Fraction(c0 + slope * offset // 1, 2**GUARD_BITS)


def segments(name: str, operand: Fixed, result: Fixed) -> Claim:
    """Every code through the table of segments and its two products."""
    found, values = fitted(name, operand, result), values_of(operand)
    cell: UnaryPiecewise = _piecewise_cell(
        (operand.encoding, result.encoding, 1), found, len(values)
    )
    wanted = []
    for value in values.values():
        steps = on_segments(found, int(value * Fraction(2) ** operand.frac_width))
        wanted.append(fixed_pattern(result, steps / Fraction(2) ** result.frac_width))
    return Claim(cell, {"data_in_0": list(values)}, wanted)


def phases(cell: Phase) -> Claim:
    """The turns of every angle, cut to steps, and mirrored into the quarters around zero."""
    data, width = cell.data_in_0, cell.data_out_0.width
    turn = 2 ** (width + 1)
    rate = cell.rate_high * 2**32 + cell.rate_low % 2**32
    angles, wanted = range(2**data.width), []
    for angle in angles:
        signed = angle - 2**data.width * (data.signed and angle >= 2 ** (data.width - 1))
        turns = Fraction(signed * rate, 2**cell.phase_width) + Fraction(cell.quarters, 4)
        steps = int(turns % 1 * turn)
        mirrored = turn / 4 <= steps < 3 * turn / 4
        wanted.append((turn // 2 - 1 - steps if mirrored else steps) % 2**width)
    return Claim(replace(cell, lanes=1, beats=len(angles)), {"data_in_0": list(angles)}, wanted)


def rows(count: int, beats: int) -> Claim:
    """Every number, those beyond the table too, which ask for its last row."""
    number, element = Encoding(3, signed=False), Encoding(5, fraction=2)
    stride = 1 << (beats - 1).bit_length()
    words = [7 * place % 32 for place in range(count * stride)]
    asked = [code for code in range(8) for _ in range(beats)]
    wanted = [
        words[min(code, count - 1) * stride + beat] for code in range(8) for beat in range(beats)
    ]
    cell = Lookup(number, element, 1, beats, count, Image(5, lambda: words), len(asked))
    return Claim(cell, {"data_in_0": asked}, wanted)


def thresholds(signed: bool) -> Claim:
    """Every number with every pair of bounds, counted from below and from above."""
    data, result = Fixed(3, 1, signed), Encoding(4)
    bounds = range(-8, 8)
    values = {code: int(value * 2) for code, value in values_of(data).items()}
    cell = Thresholds(data.encoding, result, 1, 2, 4, True, -3, 1, beats=len(values) * 512)
    inputs: dict[str, list[int]] = {"data_in_0": [], "bounds": []}
    wanted = []
    for (code, value), low, high, falls in itertools.product(
        values.items(), bounds, bounds, (0, 1)
    ):
        inputs["data_in_0"].append(code)
        inputs["bounds"].append(cell.packed([[low, high, falls]]))
        above = (value > low) + (value > high)
        wanted.append((-3 + 2 * (2 - above if falls else above)) % 16)
    return Claim(cell, inputs, wanted)


def clamp(operand: Fixed, result: Fixed, low: int, high: int, on_result: bool) -> Claim:
    """Bounds of the result are those of its values, as bounds of the operand are."""
    values = values_of(operand)
    step = Fraction(2) ** -(result if on_result else operand).frac_width
    wanted = []
    for value in values.values():
        if on_result:
            cast = values_of(result)[fixed_pattern(result, value)]
            wanted.append(fixed_pattern(result, min(max(cast, low * step), high * step)))
        else:
            wanted.append(fixed_pattern(result, min(max(value, low * step), high * step)))
    cell = ClampFixed(operand.encoding, result.encoding, 1, low, high, on_result, beats=len(values))
    return Claim(cell, {"data_in_0": list(values)}, wanted)


def pairs(operands: Sequence[Format]) -> tuple[dict[str, list[int]], list[tuple[Fraction, ...]]]:
    given = list(itertools.product(*(values_of(item).items() for item in operands)))
    patterns = {
        f"data_in_{place}": [entry[place][0] for entry in given] for place in range(len(operands))
    }
    return patterns, [tuple(value for _, value in entry) for entry in given]


def prelu(data: Fixed, slope: Fixed, result: Fixed) -> Claim:
    """Every number with every slope."""
    inputs, values = pairs([data, slope])
    wanted = [fixed_pattern(result, x * w if x < 0 else x) for x, w in values]
    cell = PreluFixed(data.encoding, result.encoding, 1, slope.encoding, beats=len(values))
    return Claim(cell, {"data_in_0": inputs["data_in_0"], "weight": inputs["data_in_1"]}, wanted)


COMBINED: dict[Operation, Callable[[Fraction, Fraction], Fraction | bool]] = {
    Operation.ADD: lambda a, b: a + b, Operation.SUBTRACT: lambda a, b: a - b,
    Operation.MULTIPLY: lambda a, b: a * b, Operation.MINIMUM: min, Operation.MAXIMUM: max,
    Operation.LESS: lambda a, b: a < b, Operation.LESS_EQUAL: lambda a, b: a <= b,
    Operation.GREATER: lambda a, b: a > b, Operation.GREATER_EQUAL: lambda a, b: a >= b,
    Operation.EQUAL: lambda a, b: a == b, Operation.NOT_EQUAL: lambda a, b: a != b,
}  # fmt: skip


def binary(operation: Operation, left: Fixed, right: Fixed, result: Fixed) -> Claim:
    """Every pair."""
    inputs, values = pairs([left, right])
    wanted = [fixed_pattern(result, Fraction(COMBINED[operation](a, b))) for a, b in values]
    cell = BinaryFixed(
        left.encoding, result.encoding, 1, right.encoding, operation, beats=len(values)
    )
    return Claim(cell, inputs, wanted)


def binary_float(operation: Operation, left: Format, right: Format, result: Format) -> Claim:
    """Every pair of floats; a zero has the sign that IEEE 754, section 6.3, gives it."""
    inputs, values = pairs([left, right])
    wanted = []
    for one, other, pair in zip(inputs["data_in_0"], inputs["data_in_1"], values, strict=True):
        exact = Fraction(COMBINED[operation](*pair))
        signs = bool(one >> left.encoding.width - 1), bool(other >> right.encoding.width - 1)
        if exact:
            wanted.append(float_pattern(result, exact))
        elif operation is Operation.MULTIPLY:
            wanted.append((signs[0] != signs[1]) << result.encoding.width - 1)
        else:
            second = signs[1] != (operation is Operation.SUBTRACT)
            wanted.append((signs[0] and second) << result.encoding.width - 1)
    guard = guard_bits(integer_bits(left), integer_bits(right), precision_bits(result))
    cell = BinaryFloat(
        left.encoding, result.encoding, 1, right.encoding, operation, has_infinity(left),
        has_infinity(right), overflow_code(result), nan_code(result), guard, beats=len(values),
    )  # fmt: skip
    return Claim(cell, inputs, wanted)


def scalar_sums(data: Format, weight: Fixed, bias: Fixed, result: Format) -> Claim:
    """Every sum of two products of a float and an integer, and a bias in steps of the floats."""
    given = list(
        itertools.product(*(values_of(item).items() for item in (data, data, weight, weight, bias)))
    )
    inputs: dict[str, list[int]] = {"data_in_0": [], "weight": [], "bias": []}
    wanted = []
    for (x0, u0), (x1, u1), (w0, v0), (w1, v1), (b, base) in given:
        inputs["data_in_0"] += [x0, x1]
        inputs["weight"] += [w0, w1]
        inputs["bias"].append(b)
        exact = u0 * v0 + u1 * v1 + base
        wanted.append(pattern(result, exact))
    cell = ScalarAccumulate(
        data.encoding, weight.encoding, bias.encoding, result.encoding, 2, 1, 1, 1, 2 * len(given),
        sum_width=9, sum_fraction=1,
    )  # fmt: skip
    return Claim(cell, inputs, wanted)


def where(first: Fixed, second: Fixed, chooses: Fixed, result: Fixed) -> Claim:
    """Every triple."""
    inputs, values = pairs([first, second, chooses])
    wanted = [fixed_pattern(result, a if c else b) for a, b, c in values]
    cell = WhereFixed(
        first.encoding, result.encoding, 1, second.encoding, chooses.encoding, beats=len(values)
    )
    return Claim(cell, inputs, wanted)


def order(number: Format) -> Claim:
    """Every float: how many positive ones are not above it, or minus those not below."""
    values = values_of(number)
    sizes = sorted({abs(value) for value in values.values()})
    width = number.encoding.width
    wanted = [
        (-1 if value < 0 else 1) * sizes.index(abs(value)) % 2**width for value in values.values()
    ]
    cell = FloatOrder(number.encoding, Encoding(width), 1, beats=len(values))
    return Claim(cell, {"data_in_0": list(values)}, wanted)


def reduced(data: Fixed, result: Fixed, *, maximum: bool, row: bool) -> Claim:
    """Every three numbers, their mean or the largest; one a beat, or two, of which one is none."""
    given = list(itertools.product(values_of(data).items(), repeat=3))
    width, beats = data.width, []
    for (a, _), (b, _), (c, _) in given:
        beats += [a | b << width, c | (a ^ b ^ 1) << width] if row else [a, b, c]
    wanted = []
    for entry in given:
        values = [value for _, value in entry]
        wanted.append(fixed_pattern(result, max(values) if maximum else sum(values) / 3))
    cell = Reduce(
        data.encoding, result.encoding, 1 + row, maximum, 3 * row, 3 - row, 1,
        width + 2 * (not maximum), 1 if maximum else 3, beats=len(beats),
    )  # fmt: skip
    return Claim(cell, {"data_in_0": beats}, wanted)


def largest(data: Fixed, *, row: bool) -> Claim:
    """Every three numbers, and the place of the first that is the largest."""
    given = list(itertools.product(values_of(data).items(), repeat=3))
    width, beats, wanted = data.width, [], []
    for entry in given:
        (a, _), (b, _), (c, _) = entry
        beats += [a | b << width, c | (a ^ b ^ 1) << width] if row else [a, b, c]
        values = [value for _, value in entry]
        wanted.append(values.index(max(values)))
    cell = Argmax(data.encoding, 1 + row, 2, 3 * row, 3 - row, 1, len(beats))
    return Claim(cell, {"data_in_0": beats}, wanted)


SEGMENTS = (
    ("sigmoid", Fixed(7, 4), Fixed(6, 5)),
    ("exp", Fixed(6, 4), Fixed(8, 4, False)),
    ("square", Fixed(7, 5, False), Fixed(7, 3, False, "floor")),
)
SMALL = {"name": "minifloat_denorm", "width": 4, "exponent_width": 2}
WIDER = {"name": "minifloat_ieee", "width": 5, "exponent_width": 3}


def claims() -> Iterator[tuple[str, Callable[[], Claim]]]:
    for name in REALS:
        for rounding in ROUNDING_MODES:
            result = Fixed(5, 3, True, rounding)
            yield f"table {name} {rounding}", lambda a=name, b=result: table(a, Fixed(6, 3), b)
    for entry in SEGMENTS:
        yield f"segments {entry[0]}", lambda a=entry: segments(*a)
    for number, cell in enumerate(Phase.samples()):
        yield f"phases {number}", lambda a=cell: phases(a)
    yield "rows of two beats", lambda: rows(6, 2)
    yield "rows of three beats", lambda: rows(5, 3)
    for signed in (False, True):
        yield f"thresholds {signed}", lambda a=signed: thresholds(a)
    for number, (low, high, on_result) in enumerate(((0, 9, True), (-5, 3, False), (-4, 11, True))):
        yield (
            f"clamp {number}",
            lambda a=low, b=high, c=on_result: clamp(Fixed(6, 3), Fixed(5, 2, True), a, b, c),
        )
    for rounding in ROUNDING_MODES:
        result = Fixed(5, 2, True, rounding)
        yield f"prelu {rounding}", lambda a=result: prelu(Fixed(5, 2), Fixed(4, 3), a)
        yield (
            f"where {rounding}",
            lambda a=result: where(Fixed(4, 3), Fixed(3, 0, False), Fixed(2, 0), a),
        )
    for operation, rounding in zip(Operation, itertools.cycle(ROUNDING_MODES)):
        result = Fixed(4, 1, True, rounding)
        yield (
            f"{operation.value} {rounding}",
            lambda a=operation, b=result: binary(a, Fixed(5, 3), Fixed(4, 2, False), b),
        )
    small, wider = make_format(SMALL), make_format(WIDER)
    for operation in (Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY):
        for left, right, result in ((small, wider, small), (wider, wider, wider)):
            yield (
                f"{operation.value} {left} {right}",
                lambda a=(operation, left, right, result): binary_float(*a),
            )
    for result in (Fixed(4, 0), Fixed(5, 1, True, "floor", "wrap"), wider):
        yield (
            f"scalar sums {result}",
            lambda a=result: scalar_sums(small, Fixed(2, 0), Fixed(2, 1), a),
        )
    yield "order", lambda: order(wider)
    for row, maximum in itertools.product((False, True), repeat=2):
        yield (
            f"reduced {row} {maximum}",
            lambda a=row, b=maximum: reduced(Fixed(3, 1), Fixed(5, 3), maximum=b, row=a),
        )
    for row in (False, True):
        yield f"largest {row}", lambda a=row: largest(Fixed(3, 1), row=a)


CLAIMS = dict(claims())


@pytest.mark.full
@pytest.mark.parametrize("name", CLAIMS)
def test_every_input_gives_what_the_definition_says(name, found):
    check(*found[name])


@pytest.mark.parametrize("entry", SEGMENTS, ids=lambda entry: entry[0])
def test_segments_are_within_a_step_of_the_function(entry):
    name, operand, result = entry
    found, step = fitted(name, operand, result), Fraction(2) ** -result.frac_width
    for value in values_of(operand).values():
        near = on_segments(found, int(value * Fraction(2) ** operand.frac_width)) * step
        assert abs(near - REALS[name][1](value)) <= step / 2, value
