"""Devices whose blocks some modules use, and what fits into these: `rtl/primitives`."""

from __future__ import annotations

from enum import Enum

from mase_hw.formats import Encoding

# Of a DSP48E2: the operand that a pre-adder feeds, and the other one.
PACKED_BITS, SHARED_BITS = 27, 18
# A product of fewer bits is cheaper in look-up tables.
LEAST_PRODUCT_BITS = 9
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


def pair_chain(shared: Encoding, own: Encoding) -> int:
    """Return how many lanes of `mase_dot_pair` one chain of blocks sums on `xcup`.

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
    if left + right < LEAST_PRODUCT_BITS or min(left, right) < 2:
        return 0
    most = _largest(shared) * _largest(own)
    return next((lanes for lanes in CHAINS if lanes * most < 1 << offset - 1), 0)


def _largest(encoding: Encoding) -> int:
    """Return the largest size of a code."""
    return 1 << encoding.width - 1 if encoding.signed else (1 << encoding.width) - 1
