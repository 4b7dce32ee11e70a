"""How exact values become codes, behind sums, products and decoded codes: time, and components."""

from __future__ import annotations

from mase_hw.cells import _components
from mase_hw.cells._components import (
    NOTHING,
    Adder,
    Compare,
    Components,
    Counter,
    Gates,
    Level,
    Memory,
    Mux,
    Negation,
    Offset,
    Pointer,
    Register,
    Saturation,
    Shifter,
    Sticky,
    Zeros,
)
from mase_hw.cells._fixed_components import bounded, cast, rounded
from mase_hw.cells._motion import Blocks, Chain, Fold, Motion, Steps
from mase_hw.cells._pipeline import (
    accumulate_pipeline,
    credits,
    index_bits,
    result_queue,
    stream_pipeline,
)
from mase_hw.formats import Encoding, Kind

# Cycles of `mase_normalize`, and from there to a scalar float.
NORMALIZE = 6
ROUND = 5
# Of `mase_scaled_cast`, and to move its result around a zero point.
SCALED_CAST = 7
RECENTRE = 2
# From a pipeline into its queue and out of it.
QUEUE = 2
# Bits of an exponent, and of the place of a leading one.
EXPONENT, PLACE = 12, 14


def cast_stages(result: Encoding) -> int:
    """Return the cycles of `mase_scalar_cast`, `cast_stages()` in `rtl/mase_pkg.sv`."""
    if result.kind is Kind.FLOAT:
        return NORMALIZE + ROUND
    if result.kind is Kind.LEVELS and result.width == 1:
        return 0
    return SCALED_CAST + RECENTRE * (result.kind is Kind.OFFSET)


def encoder(stages: int, result: Encoding, lanes: int, size: int) -> Motion:
    """Return how beats become codes whose exact values follow them, `mase_encode`.

    Args:
        stages: cycles from a beat to its exact values.
        result: encoding of the codes.
        lanes: elements of a row of a beat.
        size: elements of a row.
    """
    if not result.is_block:
        return Steps(stages + cast_stages(result) + QUEUE)
    return _blocks(stages + NORMALIZE, result, lanes, size, 1)


def sums_encoder(terms: int, stages: int, result: Encoding, lanes: int, size: int) -> Motion:
    """Return how beats become codes of sums that follow their last beat, `mase_accumulate_encode`.

    Args:
        terms: beats of a sum.
        stages: cycles from the last beat of a sum to the sum.
        result: encoding of the codes.
        lanes: sums of a row of a beat.
        size: elements of a row.
    """
    if not result.is_block:
        return Fold(terms, stages + cast_stages(result) + QUEUE)
    normalized = Fold(terms, stages + NORMALIZE + QUEUE)
    return Chain((normalized, _blocks(0, result, lanes, size, terms)))


def _blocks(stages: int, result: Encoding, lanes: int, size: int, interval: int) -> Motion:
    """Return the motion of `mase_block_encode`: a tree of maxima, and eleven registers."""
    row = -(-size // lanes)
    # Tiles that do not divide a block are refused before emission.
    block = min(max(result.block_size // lanes, 1), row)
    latency = stages + (lanes - 1).bit_length() + 11 + 2 * result.scale_is_float + QUEUE
    return Blocks(block, row, latency, interval)


def kept_bits(result: Encoding) -> int:
    """Return `kept_bits` of `rtl/mase_pkg.sv`."""
    if result.scale_is_float:
        return 10
    if result.kind is Kind.FLOAT:
        return result.width - result.exponent_width + 2
    return result.width + 1


def radix_bits(width: int) -> tuple[int, int, int]:
    """Return the radix in which `mase_normalize` counts zeros, and the bits of a digit and of all.

    Args:
        width: bits of its number.
    """
    radix = 2 if width <= 8 else 3 if width <= 27 else 4 if width <= 64 else 5
    return radix, (radix - 1).bit_length(), (radix**3 - 1).bit_length()


def normalize(
    width: int, kept: int, exponent: int = EXPONENT, *, fixed: bool = False, stored: bool = True
) -> Components:
    """Return the components of `mase_normalize`.

    Args:
        width: bits of the number.
        kept: bits of the significand.
        exponent: bits of the exponent.
        fixed: whether the exponent is known.
        stored: whether the register of the significand is counted here.
    """
    radix, digit, shift = radix_bits(width)
    place = exponent + 2
    components = Components.of(
        Negation(width),
        Register(width * 5 + 3 * digit),
        Register(1, NORMALIZE),
        (Shifter(width, radix, 1), 3),
        (Zeros(width, radix), 3),
        Register(min(width, kept) * stored),
    )
    if radix in (2, 4):
        # Digits lie side by side in the shift.
        components += Components.of(Register(digit, 3), Register(digit * 3))
    else:
        components += Components.of((Adder(shift), 2), Register(3 * shift))
    if fixed:
        return components + Components.of(Offset(place, shift), Register(shift + 1))
    ones = (width - 1).bit_count()
    components += Components.of(Register(exponent), Offset(place, ones), Register(place, 4))
    return components + Components.of(Adder(place), Register(place))


def float_round(result: Encoding, place: int = PLACE, *, before: int = 0) -> Components:
    """Return the components of `mase_float_round`.

    Args:
        result: encoding of the result.
        place: bits of the place of the leading one.
        before: registers of the significand and the sign that lead to it.
    """
    kept, above = kept_bits(result), result.exponent_width + 1
    mantissa = result.width - 1 - result.exponent_width
    down, code = kept.bit_length(), above + mantissa + 1
    return Components.of(
        Register(place + 1 + kept + 2 * above + down + code + result.width - 1),
        # From significand to significand, and the sign beside them.
        Register(kept, 2 + before),
        Register(1, ROUND + before),
        Offset(place + 1, 1),
        Compare(place, constant=True),
        Compare(place, constant=True),
        Shifter(kept, kept + 1),
        Sticky(kept),
        Adder(above),
        Offset(code - above),
        Saturation(result.width - 1, 1),
    )


def integer_round(result: Encoding, place: int = PLACE, *, before: int = 0) -> Components:
    """Return the components of `mase_integer_round`; see `float_round` for the arguments."""
    kept, width = kept_bits(result), result.width
    down = kept.bit_length()
    return Components.of(
        Register(place + 1 + kept + down + 2 + 2 * width),
        Register(kept, 2 + before),
        Register(1, ROUND - 1 + before),
        Offset(place + 1, place),
        Compare(place, constant=True),
        Shifter(kept, kept + 1),
        Sticky(kept),
        Offset(width),
        Compare(width),
        Negation(width),
        Mux(2, width),
    )


def shift_right(
    width: int,
    shift: int,
    *,
    empty: int = 0,
    lost: bool = True,
    signed: bool = True,
    kept: int = 0,
    beyond: int = 0,
) -> Components:
    """Return the components of `mase_shift_right`.

    Args:
        width: bits of the number.
        shift: bits of the distance.
        empty: bits at its end that are zero.
        lost: whether it says that a one was lost.
        signed: whether the sign fills what becomes free.
        kept: bits of the result that are read, from its end; 0 for all.
        beyond: registers that the result passes as it is.
    """
    fine = max(1, shift // 2)
    coarse = max(1, shift - fine)
    group = 1 << fine
    groups = -(-width // group)
    out = min(kept or width, width)
    middle = min(out + group - 1, width)
    components = Components.of(
        Shifter(middle, 1 << coarse, group, signed, empty, inner=width),
        Shifter(out, group, 1, signed, inner=middle),
        Register(middle + fine),
        Register(out, 1 + beyond),
    )
    if lost:
        some = groups - empty // group
        components += Components.of(
            Register(some + 1), (Sticky(group), some), Sticky(group), Gates(1)
        )
    return components


def scaled_cast(
    width: int, result: Encoding, exponent: int = EXPONENT, *, fixed: bool = False, stages: int = 0
) -> Components:
    """Return the components of `mase_scaled_cast`.

    Args:
        width: bits of the number.
        result: encoding of the result.
        exponent: bits of the exponent; 0 where it is the same for all numbers of a stream.
        fixed: whether the exponent is known.
        stages: registers before it that nothing holds, and that nobody else counts.
    """
    if fixed:
        return _known_cast(width, result)
    left = result.width
    most = width + 1 + left
    shift = most.bit_length()
    narrow = rounded(result.width + 5, result.fraction + 2, result)
    wide = width + left + 1
    components = Components.of(
        Register(width, 2 + stages),
        Saturation(1, wide - left - 1),
        Register(result.width + 4),
    )
    if exponent:
        components += Components.of(
            Register(exponent + 1 + shift),
            Offset(exponent + 1, exponent),
            Compare(exponent, constant=True),
            Gates(shift),
        )
    components += shift_right(wide, shift, empty=left + 1)
    return (
        components
        + narrow.components
        + Components.of(Register(narrow.stored))
        + bounded(narrow, result)
    )


def _known_cast(width: int, result: Encoding) -> Components:
    """Return `mase_scaled_cast` by a distance that is known: registers, and a cast."""
    return Components.of(Register(width, 4)) + cast(width, result.fraction + 1, result)


def scalar_cast(
    width: int, result: Encoding, exponent: int = EXPONENT, *, fixed: bool = False, stages: int = 0
) -> Components:
    """Return the components of `mase_scalar_cast`; see `scaled_cast` for the arguments."""
    if result.kind is Kind.FLOAT:
        components = normalize(width, kept_bits(result), exponent, fixed=fixed, stored=False)
        return (
            components
            + float_round(result, exponent + 2, before=1)
            + Components.of(Register(width, stages))
        )
    if result.kind is Kind.LEVELS and result.width == 1:
        return Components.of(Gates(1), Register(1, stages))
    if result.kind is Kind.OFFSET:
        components = scaled_cast(
            width, result.kind.rounded(result), exponent, fixed=fixed, stages=stages
        )
        ends = Components.of(
            (Compare(result.width + 3, constant=True), 2), Saturation(result.width, 1)
        )
        moved = Components.of(Offset(result.width + 3, result.zero_point.bit_count()))
        return components + moved + ends + Components.of(Register(2 * result.width + 3))
    components = scaled_cast(
        width, result.kind.rounded(result), exponent, fixed=fixed, stages=stages
    )
    return components + Components.of(Gates(result.kind.gates(result)))


def scaled_arithmetic(
    product: bool,
    left: int,
    right: int,
    guard: int,
    *,
    negated: bool = False,
    exponent: int = EXPONENT,
) -> Components:
    """Return the components of `mase_scaled_arithmetic`, less the register of its result.

    Args:
        product: whether it multiplies.
        left: bits of the first operand.
        right: of the second one.
        guard: bits that sums keep below.
        negated: whether the second operand is subtracted.
        exponent: bits of the exponents that differ.
    """
    if product:
        registers = Register(left + right + 2 * exponent)
        return Components.of(_components.Product(left, right), Adder(exponent), registers)
    width = max(left, right) + guard + 1
    shift = width.bit_length()
    terms = left + right + negated
    components = Components.of(
        # Places of both, which is higher, how far, and the operands in this order.
        Register(2 * EXPONENT + terms),
        (_components.Fold(left), 1),
        (_components.Fold(right), 1),
        Gates(2 * EXPONENT),
        Compare(EXPONENT),
        Mux(2, EXPONENT),
        Adder(EXPONENT + 1),
        Adder(EXPONENT + 1),
        Mux(2, EXPONENT + 1),
        Register(EXPONENT + 1),
        (Mux(2, max(left, right)), 2),
        Compare(EXPONENT + 1, constant=True),
        Gates(shift),
        Register(shift),
        Register(max(left, right), 2),
        Register(max(left, right), 4),
        Register(EXPONENT, 4),
        Offset(EXPONENT, 11),
        Register(EXPONENT),
        Adder(width),
    )
    if negated:
        components += Components.of(Negation(right, chosen=False))
    return components + shift_right(width, shift, empty=guard)


def significand_bits(code: Encoding) -> int:
    """Return `significand_width` of a `format_t`."""
    return code.kind.significand_bits(code)


def shift_bits(code: Encoding) -> int:
    """Return the bits of the shift of a decoded code; 0 where there is none."""
    return code.exponent_width if code.kind is Kind.FLOAT else 0


def scalar_decode(code: Encoding) -> Components:
    """Return the components of `mase_scalar_decode`."""
    if code.kind is not Kind.FLOAT:
        return NOTHING
    width = significand_bits(code)
    return Components.of(
        Negation(width),
        _components.Fold(code.exponent_width),
        Gates(code.exponent_width),
    )


def varying_bits(code: Encoding) -> int:
    """Return the bits of a significand that are not known: the last one of levels is."""
    return significand_bits(code) - code.kind.known_bits


def block_encode(
    result: Encoding,
    rows: int,
    lanes: int,
    size: int,
    stages: int,
    interval: int = 1,
    place: int = PLACE,
) -> Components:
    """Return the components of `mase_block_encode`.

    Args:
        result: encoding of the blocks.
        rows: rows of a beat.
        lanes: elements of a row of a beat.
        size: elements of a row.
        stages: cycles from a beat to its normalized numbers.
        interval: cycles from beat to beat, at least.
        place: bits of a place that differ.
    """
    kept, code = kept_bits(result), result.scale_width
    fine = result.scale_is_float
    tiles = -(-size // lanes)
    block = min(max(result.block_size // lanes, 1), tiles)
    levels = (lanes - 1).bit_length()
    scale = 1 + levels + 1 + (3 if fine else 1)
    read, ends = scale + 1, 1 + ROUND
    latency = stages + read + 1 + ends + 2
    depth = block - 1 + -(-(latency + 1) // interval) + (interval > 1)
    stored = min(block + read + 1, depth)
    address, count = index_bits(stored), index_bits(block + 1)
    tile, part = index_bits(tiles), index_bits(block)
    element = 1 + place + kept
    key = place + (kept if fine else 0)
    nearest = result.kind is Kind.FLOAT and result.width - 1 == result.exponent_width
    many, parted = tiles > 1, block > 1
    control = Components.of(
        (Register(1), stages + read + ends + 1 + 1 + 1),
        Register(1, scale),
        Register(1, scale - 1 + 1),
        (Counter(tile), 2 * many),
        (Counter(part), 2 * parted),
        (Pointer(address), 2),
        (Pointer(count), 2),
        Level(count + 1),
        Gates(6),
        Memory(1 << address, rows * lanes * element),
    )
    row = Components.of(
        (Register(key), _keys(lanes)),
        (Compare(key), lanes - 1),
        (Mux(2, key), lanes - 1),
        (Mux(2, key), lanes),
        Register(2 * code),
        (Compare(key, constant=True), 2),
        Offset(code, code),
        Gates(code),
        Compare(code),
        Memory(1 << count, code),
        Register(code),
        Register(code, ends),
    )
    if fine:
        row += _fine_scale(kept, place)
    if nearest:
        row += Components.of((Offset(place), lanes))
    # The place that was read, and the one in the block; the rest waits beside it.
    lane = Components.of(Register(2 * place), Adder(place))
    if fine:
        lane += _fine_element(kept, place)
    elif result.kind is Kind.FLOAT:
        lane += float_round(result, place, before=2)
    else:
        lane += integer_round(result, place, before=2)
    ends_at = credits(depth) + result_queue(rows * (lanes * result.width + code), depth)
    return control + row * rows + lane * (rows * lanes) + ends_at


def _keys(lanes: int) -> int:
    """Return the keys of a tree of maxima, those that enter with them."""
    total = lanes
    while lanes > 1:
        lanes = -(-lanes // 2)
        total += lanes
    return total


def _fine_scale(kept: int, place: int) -> Components:
    """Return the components of `mase_nvfp4_scale`."""
    steps = 8
    return Components.of(
        (Compare(kept + 5, constant=True), steps + 1),
        Mux(2, kept + 5),
        Register(steps + 2 * place + 4),
        (Gates(1), steps),
        Compare(place, constant=True),
        Saturation(8, 4),
        Register(8),
    )


def _fine_element(kept: int, place: int) -> Components:
    """Return the components of `mase_nvfp4_element`."""
    steps, end = 7, kept - 1
    return Components.of(
        Register(place + 1 + kept + 1 + 4 + 3 + steps + 3),
        Register(kept, 4),
        Register(1, ROUND + 2),
        Offset(place + 1, place),
        Compare(place, constant=True),
        Shifter(kept, kept + 1),
        Sticky(kept),
        (Register(5, 2), steps),
        (Gates(4), steps),
        (Compare(end + 2), steps),
        (Gates(1), 4),
    )


def encode(
    width: int,
    result: Encoding,
    stages: int,
    rows: int,
    lanes: int,
    size: int,
    *,
    exponent: int = EXPONENT,
    registered: int = 1,
) -> Components:
    """Return the components of `mase_encode`, and of the register of exact values.

    Args:
        width: bits of the exact values.
        result: encoding of the codes.
        stages: cycles from a beat to its exact values.
        rows: rows of a beat.
        lanes: elements of a row of a beat.
        size: elements of a row.
        exponent: bits of exponents that differ.
        registered: rows of registers that hold exact values before it.
    """
    if result.is_block:
        numbers = normalize(width, kept_bits(result), exponent)
        numbers = (numbers + Components.of(Register(width, registered))) * (rows * lanes)
        place = exponent + 2
        return numbers + block_encode(result, rows, lanes, size, stages + NORMALIZE, place=place)
    codes = scalar_cast(width, result, exponent, stages=registered) * (rows * lanes)
    pipeline = stream_pipeline(rows * lanes * result.width, stages + cast_stages(result))
    return codes + pipeline


def accumulate_encode(
    terms: int,
    part: int,
    sums: int,
    bias: int,
    width: int,
    result: Encoding,
    rows: int,
    lanes: int,
    size: int,
    *,
    fixed: bool = False,
    registered: int = 0,
) -> Components:
    """Return the components of `mase_accumulate_encode`.

    Args:
        terms: beats of a sum.
        part: cycles until a beat is summed up.
        sums: cycles from there to the sum.
        bias: bits of a bias; 0 for none.
        width: bits of a sum.
        result: encoding of the codes.
        rows: rows of a beat.
        lanes: sums of a row.
        size: results of a row.
        fixed: whether the exponent of sums is known.
        registered: registers of sums that nothing holds, and that nobody else counts.
    """
    count, kept = rows * lanes, kept_bits(result)
    if result.is_block:
        wide = 1 + PLACE + kept
        pipeline = accumulate_pipeline(terms, part, sums + NORMALIZE, bias, count * wide)
        number = normalize(width, kept, fixed=fixed) + Components.of(Register(width, registered))
        numbers = number * count
        return pipeline + numbers + block_encode(result, rows, lanes, size, 0, terms)
    stages = sums + cast_stages(result)
    pipeline = accumulate_pipeline(terms, part, stages, bias, count * result.width)
    return pipeline + scalar_cast(width, result, fixed=fixed, stages=registered) * count
