"""Linear layers on blocks of integers with shared scales (MXINT, block floating point).

The products of a block are summed exactly. The sums of blocks are added in order of the row, after
the bias, in floating point with `GUARD_BITS` further bits: of the sum so far and the next block,
the one with the smaller exponent is shifted right to the other's exponent, rounding down, and no
sum is ever too wide. The result is rounded once more, to its format. Every step is the same
whatever the parallelism.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mase_hw.formats.fixed import Fixed
from mase_hw.ops._base import Call, Cycles, Hardware, Reference, Source
from mase_hw.ops._blocks import (
    block,
    block_problems,
    check_tiles,
    encoded,
    is_block,
)

GUARD_BITS = 8
MAX_SUM_BITS = 62
# An exponent below every other.
LOWEST_EXPONENT = -(1 << 11)


def serves(call: Call) -> bool:
    """Return whether the operands of a linear layer are blocks of integers."""
    return is_block(call.operands["data_in_0"])


def problems(call: Call) -> list[str]:
    """Return what stands between the call and hardware."""
    found = []
    for name, spec in {**call.operands, **call.results}.items():
        if is_block(spec):
            found += block_problems(name, spec)
        elif name != "data_out_0" or not isinstance(spec.format, Fixed):
            found.append(
                f"{name} is {spec.format}; beside blocks it must be one of mxint, block_fp"
            )
    if found:
        return found
    sizes = {name: block(call.operands[name]).blocking[0] for name in ("data_in_0", "weight")}
    if len(set(sizes.values())) > 1:
        found.append(
            f"data_in_0 has blocks of {sizes['data_in_0']}, weight of {sizes['weight']}: "
            "configure one block_size"
        )
    elif _sum_width(call) > MAX_SUM_BITS:
        found.append("sums may exceed 62 bits; use narrower operands")
    return found


def reference(call: Call) -> Reference:
    """Return codes -> codes."""
    data, weight, result = block(call.operands["data_in_0"]), call.operands["weight"], call.result
    size = data.blocking[0]
    bits, scales = block(weight).split(call.constant_codes("weight"))
    columns = block(weight).element.integers(bits).double().t()
    shift = data.element.lsb_exponent + block(weight).element.lsb_exponent - GUARD_BITS
    start, start_exponent = _start(call)

    def compute(codes: Tensor) -> Tensor:
        bits, exponents = data.split(codes.reshape(-1, codes.shape[-1]))
        rows = data.element.integers(bits).double()
        total = start.expand(len(rows), -1)
        place = start_exponent.expand(len(rows), -1)
        for first in range(0, rows.shape[1], size):
            part = slice(first, first + size)
            # A block's sum is far below 53 bits: exact in float64.
            term = (rows[:, part] @ columns[part]).to(torch.int64) << GUARD_BITS
            term_place = exponents[:, first, None] + scales[None, :, first] + shift
            total, place = _add(total, place, term, term_place)
        shape = (*codes.shape[:-1], columns.shape[1])
        return result.quantized.from_scaled(total.reshape(shape), place.reshape(shape))

    return compute


def _start(call: Call) -> tuple[Tensor, Tensor]:
    """Return the bias as int64 significands and exponents of their lowest bit."""
    if "bias" not in call.operands:
        results = call.operands["weight"].shape[0]
        return torch.zeros(results, dtype=torch.int64), torch.full((results,), LOWEST_EXPONENT)
    number = block(call.operands["bias"])
    bits, exponents = number.split(call.constant_codes("bias"))
    left = GUARD_BITS - block(call.operands["data_in_0"]).element.lsb_exponent
    return number.element.integers(bits) << left, exponents + number.element.lsb_exponent - left


def _add(total: Tensor, place: Tensor, term: Tensor, term_place: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of two floating-point numbers, the smaller exponent's rounded down."""
    high = torch.maximum(place, term_place)
    shifted = total >> (high - place).clamp(max=63)
    return shifted + (term >> (high - term_place).clamp(max=63)), high


def _sum_width(call: Call) -> int:
    """Return the bits of the widest sum."""
    data, weight = block(call.operands["data_in_0"]), block(call.operands["weight"])
    elements = call.operands["data_in_0"].size[1]
    product = 1 << (data.element.width + weight.element.width - 2)
    largest = (elements * product) << GUARD_BITS
    if "bias" in call.operands:
        width = block(call.operands["bias"]).element.width
        largest += 1 << (width - 1 + GUARD_BITS - data.element.lsb_exponent)
    # Rounding down takes up to one from every term.
    return (largest + elements + 1).bit_length() + 1


def hardware(call: Call, sources: Sequence[Source]) -> Hardware:
    """Return an instance whose weights, and bias if any, come from ROMs."""
    check_tiles(call.name, "data_in_0", call.operands["data_in_0"])
    result_is_block, has_bias = is_block(call.result), "bias" in call.operands
    if result_is_block:
        check_tiles(call.name, "data_out_0", call.result)
    if has_bias:
        bias = call.operands["bias"].with_parallelism(1, call.result.parallelism[1])
        check_tiles(call.name, "data_out_0", bias)
    return Hardware(
        "mase_linear_mxint",
        {
            "HAS_BIAS": int(has_bias),
            "GUARD_BITS": GUARD_BITS,
            "SUM_WIDTH": _sum_width(call),
            "DATA_OUT_0_BLOCK": int(result_is_block),
        },
        sources,
        absent=() if has_bias else ("bias",),
        zeros=() if has_bias else ("bias_exponent",),
        open=() if result_is_block else ("data_out_0_exponent",),
    )


def schedule(call: Call, met: Cycles) -> Cycles:
    """Return when results are offered, given when the last operands of each meet."""
    complete = met + 3 + (call.operands["data_in_0"].parallelism[1] - 1).bit_length()
    return encoded(call.result, complete) if is_block(call.result) else complete + 1
