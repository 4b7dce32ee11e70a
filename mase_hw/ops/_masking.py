"""Masks of scores: which elements a softmax leaves out, and how models spell it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from mase_hw._aten import aten
from mase_hw._kinds import Argument
from mase_hw.ops._base import Call
from mase_hw.ops._interface import Interface

# What is added to a score to leave it out: libraries take the least number of a dtype, or -1e9.
EXCLUDED = -1e4


@dataclass(frozen=True)
class Mask:
    """What a mask is made of.

    Attributes:
        kept: `[batch, keys]`, zero where no query sees a key; None where all are seen.
        seen: which keys each query sees besides; None for all.
        bias: what is added to the scores that are seen; None for nothing.
        turned: true where `kept` is the other way round, zero where a key is seen.
    """

    kept: Argument
    seen: Tensor | None
    bias: Tensor | None
    turned: bool = False

    def with_mask(self, other: Mask) -> Mask | None:
        """Return both as one; None where each is of an input."""
        if None not in (self.kept, other.kept):
            return None
        masks = [item.seen for item in (self, other) if item.seen is not None]
        seen = masks[0] & masks[-1] if masks else None
        one = other if self.kept is None else self
        bias = other.bias if self.bias is None else self.bias
        return Mask(one.kept, seen, bias, one.turned)


class Masked(Interface):
    """A mask on its scores may become part of it; it names the first or the second of these.

    Attributes:
        mask_argument: the ATen argument that is a mask, computed for all queries and keys.
        masked_argument: the one whose elements are left out where a mask is on them.
    """

    mask_argument: ClassVar[str | None] = None
    masked_argument: ClassVar[str | None] = None

    @abstractmethod
    def masked(
        self, call: Call, operands: Mapping[str, Tensor], mask: Mask, scale: float
    ) -> Tensor:
        """Return the result with a mask; None where there is no such result.

        Args:
            call: the call, with shapes.
            operands: what stands for each tensor operand, as in `expression`, without its mask.
            mask: what is left out; `kept` stands for a tensor.
            scale: what the masked operand is to be multiplied with before.
        """

    def is_triangular(self, call: Call) -> bool:
        """True if results `[..., i, j]` are zero where j is more than i, whatever comes."""
        return False


class Repeating(Interface):
    """Its result is that of its other operands, as often as one has rows.

    Attributes:
        counted_argument: the ATen argument whose rows count, and nothing else of it.
    """

    counted_argument: ClassVar[str] = ""


@dataclass(frozen=True)
class Masking:
    """A call that puts a mask on scores.

    Attributes:
        scores: the argument.
        mask: the one of the mask.
        value: what is there instead of a score that is left out; None where the mask is added.
        negated: whether a score is left out where the mask is true.
    """

    scores: Argument
    mask: Argument
    value: Argument = None
    negated: bool = False


def maskings(target: object, arguments: Sequence[object]) -> list[Masking]:
    """Return the ways in which a call may be one, by its ATen target and all its arguments."""
    if target is aten.add.Tensor and arguments[2] == 1:
        first, second = arguments[:2]
        return [Masking(first, second), Masking(second, first)]
    if target in (aten.masked_fill.Scalar, aten.masked_fill.Tensor):
        scores, mask, value = arguments[:3]
        return [Masking(scores, mask, value, negated=True)]
    if target in (aten.where.ScalarOther, aten.where.self):
        return [Masking(arguments[1], arguments[0], arguments[2])]
    return []


def scaling(target: Any, arguments: Sequence[Any]) -> tuple[Any, float] | None:
    """Operand and factor of a call that multiplies with a number; None for another call."""
    if target is aten.mul.Tensor and type(arguments[1]) in (int, float):
        return arguments[0], float(arguments[1])
    return None


def for_scores(mask: Mask, rank: int, keys: int) -> Tensor:
    """Return which keys count, zero for those that do not, as scores of a rank broadcast it."""
    kept = aten.eq.Scalar(mask.kept, 0) if mask.turned else mask.kept
    scores: Tensor = aten.reshape.default(kept, [-1, *[1] * (rank - 2), keys])
    return scores
