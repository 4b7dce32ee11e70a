"""Rows of elements as they stream, a few at a time, with anything in the lanes behind the last."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.cells.rational import Claim


def streamed(codes: Sequence[int], width: int, lanes: int, beyond: int) -> list[int]:
    """Return the beats of a row.

    Args:
        codes: the bits of its elements.
        width: bits of an element.
        lanes: elements of a beat.
        beyond: the bits of what is no element.
    """
    padded = [*codes, *[beyond] * (-len(codes) % lanes)]
    starts = range(0, len(padded), lanes)
    return [joined(padded[first : first + lanes], width) for first in starts]


def joined(codes: Sequence[int], width: int) -> int:
    """Return elements in one word, the first in the low bits."""
    return sum(code << place * width for place, code in enumerate(codes))


@dataclass(frozen=True)
class RowClaim(Claim):
    """A claim of which each result is a row in one word."""

    elements: int
    width: int
    lanes: int

    def rows(self, beats: Sequence[int]) -> list[int]:
        each, whole = -(-self.elements // self.lanes), (1 << self.elements * self.width) - 1
        starts = range(0, len(beats), each)
        lanes = self.lanes * self.width
        return [joined(beats[first : first + each], lanes) & whole for first in starts]
