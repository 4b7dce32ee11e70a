"""What dot products of decoded codes are made of: `mase_scalar_dot_product`."""

from __future__ import annotations

from mase_hw.cells._components import Adder, Components, Gates, Product, Register, Shifter
from mase_hw.cells._encoder import (
    scalar_decode,
    shift_bits,
    significand_bits,
    varying_bits,
)
from mase_hw.cells._fixed_components import tree
from mase_hw.formats import Encoding, Kind


def scalar_dot_product(
    data: Encoding, weight: Encoding, lanes: int, width: int, stages: int
) -> Components:
    """Return the components of `mase_scalar_dot_product`.

    Args:
        data: encoding of the data.
        weight: of the weights.
        lanes: elements that are multiplied and summed.
        width: bits of the sum.
        stages: cycles before the tree.
    """
    if data.kind is weight.kind is Kind.LEVELS and data.width == weight.width == 1:
        return _signs(lanes, width, stages)
    left, right = significand_bits(data), significand_bits(weight)
    product = left + right
    lane = scalar_decode(data) + scalar_decode(weight)
    lane += Components.of(
        Register(varying_bits(data) + varying_bits(weight)),
        Gates(varying_bits(data)),
        Product(left, right),
        Register(product),
    )
    if stages == 4:
        bits = shift_bits(data), shift_bits(weight)
        shift = max(bits) + 1
        # What the largest shift moves to the left; the bits above are copies of the sign.
        most = sum((1 << number) - 2 for number in bits if number)
        ways = most // 4 + 1
        width = min(width, product + most)
        lane += Components.of(
            Register(shift_bits(data) + shift_bits(weight)),
            Adder(shift),
            Register(shift + max(shift - 2, 0)),
            Shifter(product + 3, 4),
            Register(product + 3),
            Shifter(width, ways, 4, left=product + 3),
            Register(width),
        )
        return lane * lanes + tree(lanes, width)
    return lane * lanes + tree(lanes, product)


def _signs(lanes: int, width: int, stages: int) -> Components:
    """Return a count of equal signs."""
    bits = lanes.bit_length() + 1
    delay = stages - 2 + (lanes - 1).bit_length()
    lane = Components.of(Register(1, stages - 1), Gates(1))
    ends = Components.of(
        Register(bits - 1, delay + 1), Gates(lanes), Adder(bits + 1), Register(bits + 1)
    )
    return lane * lanes + tree(lanes, 1) + ends
