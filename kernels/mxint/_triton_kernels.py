"""The Triton programs behind `triton.py`; importing this file needs triton.

The compiler reads annotations as Triton types, so that only compile-time constants carry one.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: N803

from __future__ import annotations

import triton  # type: ignore[import-untyped,import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-untyped,import-not-found,unused-ignore]

EXPONENT_NAN = tl.constexpr(255)
DECODE_BIAS = tl.constexpr(133)
# 1.5 * 2**23: adding it to a small float32 rounds to an integer, ties to even.
ROUND = tl.constexpr(12582912.0)
ROUND_BITS = tl.constexpr(0x4B400000)


def next_power_of_2(value: int) -> int:
    """Return the smallest power of two that is at least `value`."""
    return 1 << (value - 1).bit_length()


@triton.jit
def _scale(exponents):
    """Float32 factor of an INT8 code under an E8M0 exponent: 2**(e - 133), subnormals included."""
    wide = exponents.to(tl.int32)
    normal = (wide - 6) << 23
    subnormal = 1 << tl.minimum(wide + 16, 22)
    return tl.where(wide >= 7, normal, subnormal).to(tl.float32, bitcast=True)


@triton.jit
def _decode_bits(codes, exponents):
    """Float32 bits of decoded values; the upper half is the same value in bfloat16, exactly."""
    bits = (codes.to(tl.float32) * _scale(exponents)).to(tl.int32, bitcast=True)
    return tl.where(exponents.to(tl.int32) == EXPONENT_NAN, 0x7FC00000, bits)


@triton.jit
def _power_of_two(power):
    """Float32 2**power for powers from -149 to 127."""
    normal = (power + 127) << 23
    subnormal = 1 << tl.maximum(tl.minimum(power + 149, 22), 0)
    return tl.where(power >= -126, normal, subnormal).to(tl.float32, bitcast=True)


@triton.jit
def _to_bfloat16(values):
    """Round float32 to bfloat16, ties to even; in bits, because the interpreter rounds ties up."""
    bits = values.to(tl.int32, bitcast=True)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    rounded = tl.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FC0, rounded)
    return rounded.to(tl.int16).to(tl.bfloat16, bitcast=True)


# Four codes times their factors as bfloat16, two in a register; see `decode_pair` in bits.cuh.
DECODE_FOUR = tl.constexpr(
    """{
    .reg .b32 spread, sign, ones, zero;
    mov.b32 ones, 0xBF80BF80;
    mov.b32 zero, 0;
    prmt.b32 spread, $2, 0x40404040, 0x4140;
    and.b32 sign, spread, 0xFF80FF80;
    and.b32 spread, spread, 0xFF7FFF7F;
    fma.rn.bf16x2 spread, sign, ones, spread;
    fma.rn.bf16x2 $0, spread, $3, zero;
    prmt.b32 spread, $2, 0x40404040, 0x4342;
    and.b32 sign, spread, 0xFF80FF80;
    and.b32 spread, spread, 0xFF7FFF7F;
    fma.rn.bf16x2 spread, sign, ones, spread;
    fma.rn.bf16x2 $1, spread, $4, zero;
    }"""
)


@triton.jit
def _decode_bfloat16(codes, scales):
    """Decoded values of codes and the factors of `_scale_bfloat16`."""
    return tl.inline_asm_elementwise(
        DECODE_FOUR,
        "=r,=r,r,r,r",
        [codes, scales],
        dtype=tl.bfloat16,
        is_pure=True,
        pack=4,
    )


@triton.jit
def _scale_bfloat16(exponents):
    """2**(e - 127) or NaN, as bfloat16: of fields 0 and 255 the upper fraction bit is set."""
    wide = exponents.to(tl.int32)
    bits = (wide << 7) | tl.where(((wide + 1) & 0xFE) == 0, 0x40, 0)
    return bits.to(tl.int16).to(tl.bfloat16, bitcast=True)


@triton.jit
def _each(groups, ROWS: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """Repeat every element of `[ROWS, GROUPS]` BLOCK times along the last dimension."""
    wide = tl.broadcast_to(groups[:, :, None], (ROWS, GROUPS, BLOCK))
    return tl.reshape(wide, (ROWS, GROUPS * BLOCK))


@triton.jit
def dequantize(
    codes,
    exponents,
    out,
    total,
    columns,
    blocks,
    BLOCK: tl.constexpr,
    WHOLE: tl.constexpr,
    HALF: tl.constexpr,
    TILE: tl.constexpr,
):
    """One program decodes TILE neighbours of the flattened tensor into bit patterns.

    WHOLE: blocks do not end early at the end of a row. HALF: 16-bit results (bfloat16).
    """
    if WHOLE and TILE % BLOCK == 0:
        # Blocks as rows: one load of an exponent serves all lanes of its block.
        groups: tl.constexpr = TILE // BLOCK
        group = tl.program_id(0).to(tl.int64) * groups + tl.arange(0, groups)
        offsets = group[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
        inside = (group * BLOCK < total)[:, None]
        exponent = tl.load(exponents + group, mask=group * BLOCK < total, other=0)[:, None]
    else:
        offsets = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
        inside = offsets < total
        index = offsets // BLOCK
        if not WHOLE:
            index = offsets // columns * blocks + offsets % columns // BLOCK
        exponent = tl.load(exponents + index, mask=inside, other=0)
    code = tl.load(codes + offsets, mask=inside, other=0)
    bits = _decode_bits(code, exponent)
    if HALF:
        tl.store(out + offsets, (bits >> 16).to(tl.int16), mask=inside)
    else:
        tl.store(out + offsets, bits, mask=inside)


@triton.jit
def quantize(
    values,
    codes,
    exponents,
    total,
    columns,
    blocks,
    BLOCK: tl.constexpr,
    PADDED: tl.constexpr,
    HALF: tl.constexpr,
    TILE: tl.constexpr,
):
    """One program encodes TILE blocks of bit patterns, each held in PADDED lanes."""
    index = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    lane = tl.arange(0, PADDED)
    start = index % blocks * BLOCK
    offsets = (index // blocks * columns + start)[:, None] + lane[None, :]
    inside = (index < total)[:, None] & (lane < BLOCK)[None, :]
    inside = inside & (start[:, None] + lane[None, :] < columns)
    bits = tl.load(values + offsets, mask=inside, other=0).to(tl.int32)
    if HALF:
        bits = bits << 16
    value = bits.to(tl.float32, bitcast=True)
    # The magnitude bits of floats order as integers do, infinities and NaNs on top.
    exponent = tl.max(bits & 0x7FFFFFFF, axis=1) >> 23
    power = DECODE_BIAS - exponent
    first = _power_of_two(tl.minimum(power, 127))
    second = _power_of_two(tl.maximum(power - 127, 0))
    finite = (exponent != EXPONENT_NAN)[:, None]
    scaled = tl.where(finite, value, 0.0) * first[:, None] * second[:, None]
    code = (scaled + ROUND).to(tl.int32, bitcast=True) - ROUND_BITS
    code = tl.minimum(tl.maximum(code, -127), 127)
    tl.store(codes + offsets, code.to(tl.int8), mask=inside)
    tl.store(exponents + index, exponent.to(tl.uint8), mask=index < total)


@triton.jit
def linear(
    values,
    codes,
    exponents,
    bias,
    out,
    rows,
    outputs,
    columns,
    blocks,
    BLOCK: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HALF: tl.constexpr,
    WIDE: tl.constexpr,
    GROUPS: tl.constexpr,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
):
    """One program makes TILE_N outputs of up to TILE_M rows: `values @ decode(codes).T + bias`.

    The weight crosses device memory as one byte an element and is decoded in registers, where the
    matrix units take their left operand from: the tile is made transposed, weight times values.
    HALF: bfloat16 values. WIDE: multiply them in float32, which gives the same products; the
    interpreter needs it, because its dot product does not know bfloat16. GROUPS: blocks of a row
    of a tile where they fill it; 0 where each element looks up its exponent.
    """
    row = tl.arange(0, TILE_M)
    column = tl.program_id(0) * TILE_N + tl.arange(0, TILE_N)
    lane = tl.arange(0, TILE_K)
    value_rows = values + row.to(tl.int64)[None, :] * columns
    code_rows = codes + column.to(tl.int64)[:, None] * columns
    exponent_rows = exponents + column.to(tl.int64)[:, None] * blocks
    total = tl.zeros((TILE_N, TILE_M), dtype=tl.float32)
    for start in range(0, columns, TILE_K):
        inner = start + lane
        within = inner < columns
        value = tl.load(
            value_rows + inner[:, None], mask=within[:, None] & (row < rows)[None, :], other=0.0
        )
        if HALF and WIDE:
            value = (value.to(tl.int16, bitcast=True).to(tl.int32) << 16).to(
                tl.float32, bitcast=True
            )
        weight_mask = (column < outputs)[:, None] & within[None, :]
        code = tl.load(code_rows + inner[None, :], mask=weight_mask, other=0)
        if GROUPS > 0:
            group = start // BLOCK + tl.arange(0, GROUPS)
            group_mask = (column < outputs)[:, None] & (group < blocks)[None, :]
            exponent = tl.load(exponent_rows + group[None, :], mask=group_mask, other=0)
        else:
            exponent = tl.load(exponent_rows + inner[None, :] // BLOCK, mask=weight_mask, other=0)
        if HALF and not WIDE:
            scale = _scale_bfloat16(exponent)
            if GROUPS > 0:
                scale = _each(scale, TILE_N, GROUPS, TILE_K // GROUPS)
            weight = _decode_bfloat16(code, scale)
        else:
            if GROUPS > 0:
                exponent = _each(exponent, TILE_N, GROUPS, TILE_K // GROUPS)
            weight = _decode_bits(code, exponent).to(tl.float32, bitcast=True)
        total = tl.dot(weight, value, total, input_precision="ieee")
    if HAS_BIAS:
        offset = tl.load(bias + column, mask=column < outputs, other=0.0)
        total += offset.to(tl.float32)[:, None]
    target = out + row.to(tl.int64)[None, :] * outputs + column[:, None]
    mask = (row < rows)[None, :] & (column < outputs)[:, None]
    if out.dtype.element_ty == tl.bfloat16:
        tl.store(target, _to_bfloat16(total), mask=mask)
    else:
        tl.store(target, total, mask=mask)


@triton.jit
def linear_both(
    value_codes,
    value_exponents,
    codes,
    exponents,
    bias,
    out,
    rows,
    outputs,
    columns,
    blocks,
    BLOCK: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    PADDED: tl.constexpr,
):
    """One program makes a tile with both operands in MXINT8.

    Blocks are multiplied as integers, exactly, and added in float32 in ascending order.
    """
    tiles_n = tl.cdiv(outputs, TILE_N)
    row = tl.program_id(0) // tiles_n * TILE_M + tl.arange(0, TILE_M)
    column = tl.program_id(0) % tiles_n * TILE_N + tl.arange(0, TILE_N)
    lane = tl.arange(0, PADDED)
    row_inside, column_inside = row < rows, column < outputs
    value_rows = value_codes + row.to(tl.int64)[:, None] * columns
    code_rows = codes + column.to(tl.int64)[:, None] * columns
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for index in range(0, blocks):
        inner = index * BLOCK + lane
        within = ((lane < BLOCK) & (inner < columns))[None, :]
        left = tl.load(value_rows + inner[None, :], mask=row_inside[:, None] & within, other=0)
        right = tl.load(code_rows + inner[None, :], mask=column_inside[:, None] & within, other=0)
        dot = tl.dot(left, tl.trans(right), out_dtype=tl.int32).to(tl.float32)
        left_exponent = tl.load(
            value_exponents + row.to(tl.int64) * blocks + index, mask=row_inside, other=0
        ).to(tl.int32)
        right_exponent = tl.load(
            exponents + column.to(tl.int64) * blocks + index, mask=column_inside, other=0
        ).to(tl.int32)
        invalid = (left_exponent == EXPONENT_NAN)[:, None] | (right_exponent == EXPONENT_NAN)[
            None, :
        ]
        # The pair's power spans -266 to 242: two factors, the first of which is always exact.
        power = left_exponent[:, None] + right_exponent[None, :] - 2 * DECODE_BIAS
        first = tl.minimum(tl.maximum(power, -126), 104)
        second = tl.minimum(power - first, 127)
        term = dot * _power_of_two(first) * _power_of_two(second)
        total += tl.where(invalid, float("nan"), term)
    if HAS_BIAS:
        offset = tl.load(bias + column, mask=column_inside, other=0.0)
        total += offset.to(tl.float32)[None, :]
    target = out + row.to(tl.int64)[:, None] * outputs + column[None, :]
    mask = row_inside[:, None] & column_inside[None, :]
    if out.dtype.element_ty == tl.bfloat16:
        tl.store(target, _to_bfloat16(total), mask=mask)
    else:
        tl.store(target, total, mask=mask)
