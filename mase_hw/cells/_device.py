"""Devices whose blocks some modules use, and what fits into these: `rtl/primitives`."""

from __future__ import annotations

from enum import Enum

from mase_hw.formats import Encoding

# Of a DSP48E2: the operand that a pre-adder feeds, and the other one.
PACKED_BITS, SHARED_BITS = 27, 18
# A block makes four products of so many bits; those of fewer are cheaper in look-up tables.
QUAD_PRODUCT_BITS, QUAD_OPERAND_BITS = 8, 3
CHAINS = (4, 2, 1)


class Device(Enum):
    """Whose blocks synthesis may use; the values are the words of `mase_pkg::device_e`."""

    GENERIC = "Generic"
    XCUP = "Xcup"

    @classmethod
    def names(cls) -> list[str]:
        """Return the names that an option takes."""
        return [item.value.lower() for item in cls]

    @classmethod
    def of(cls, name: str) -> Device:
        """Return the device of one of `names`."""
        return cls(name.capitalize())


def block_products(device: Device, shared: Encoding, own: Encoding) -> int:
    """Return how many products with common elements `mase_dot_shared` makes in a block.

    Args:
        device: whose blocks.
        shared: encoding of what all products share.
        own: of the others.

    Returns:
        4, 2, or 1 where there is nothing to share.
    """
    left, right = shared.width + (not shared.signed), own.width + (not own.signed)
    if device is not Device.XCUP:
        return 1
    if left + right == QUAD_PRODUCT_BITS and min(left, right) >= QUAD_OPERAND_BITS:
        # A field has a bit less than a product, and the last one ends with its operand.
        fits = 3 * (left + right - 1) + own.width < PACKED_BITS
        return 4 if fits else 1
    return 2 if pair_chain(shared, own) else 1


def pair_chain(shared: Encoding, own: Encoding) -> int:
    """Return how many lanes of two results one chain of blocks sums on `xcup`.

    Two operands are packed into one of 27 bits, the second above the first, so that a block makes
    both products with what they share; the lower field holds a sum of so many of them.

    Args:
        shared: encoding of what both products share.
        own: of the others.

    Returns:
        4, 2 or 1; 0 where two products do not fit, or are cheaper in look-up tables.
    """
    left, right = shared.width + (not shared.signed), own.width + (not own.signed)
    offset = PACKED_BITS - 1 - right
    if left > SHARED_BITS or own.width > PACKED_BITS // 2:
        return 0
    if left + right <= QUAD_PRODUCT_BITS or min(left, right) < 2:
        return 0
    most = _largest(shared) * _largest(own)
    return next((lanes for lanes in CHAINS if lanes * most < 1 << offset - 1), 0)


def _largest(encoding: Encoding) -> int:
    """Return the largest size of a code."""
    return 1 << encoding.width - 1 if encoding.signed else (1 << encoding.width) - 1
