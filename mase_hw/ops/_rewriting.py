"""What passes that rewrite graphs ask of an operator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from torch import Tensor

from mase_hw._kinds import Table
from mase_hw.ops._base import Call
from mase_hw.ops._interface import Interface

# What a composition computes, and the arguments of the operator that it means.
Spelling = Tensor | tuple[Tensor, Table]
# In a composition, any number, which arguments of the operator may be too.
ANY_NUMBER = 0.123456789e-4


class Rewritten(Interface):
    """Some or all calls are written with other torch operators.

    Attributes:
        fused: true when `expression` is for number formats: without them the operator stays whole.
        weighs: true when a constant operand is a matrix of weights although it is not called so.
    """

    fused = False
    weighs = False

    @abstractmethod
    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return every result written with other torch operators; None when there is hardware.

        Args:
            call: the call, with shapes; formats are not known yet.
            operands: what stands for each tensor operand; torch operators called on it are
                recorded.
        """


class Recognized(Interface):
    """Models write it with other operators of torch too."""

    @abstractmethod
    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        """Yield the results of compositions of other torch operators on `x` that mean this one.

        A pass raises what capture makes of them to `targets[0]`, with its default arguments or
        those that come with the result. Numbers may be whole or real, sums and products either
        way round, and what occurs twice be computed once or twice: one spelling is enough. Of
        compositions that hold each other the largest counts. `ANY_NUMBER` stands for whatever
        number is there, as an argument too.

        Examples:
            >>> def patterns(self, x):
            ...     yield torch.relu(x) ** 2
            ...     yield torch.square(torch.relu(x))
        """


class Commutative(Interface):
    """The first two arguments may change places."""


class Removable(Interface):
    """Some calls do nothing at inference."""

    def is_identity(self, call: Call) -> bool:
        """Return true when the node may be replaced by its operand, at inference."""
        return False

    def trains(self, call: Call) -> bool:
        """Return true when an identity at inference acts while the model is trained."""
        return False


class Foldable(Interface):
    """Some calls are folded into the constants of the node before."""

    def fold(self, call: Call, producer: Call) -> Mapping[str, Tensor] | None:
        """Return new constants for `producer` that make this call redundant, or None."""
        return None


class Affine(Interface):
    """Some calls are `scale * x + shift` of their one stream, with constants.

    Attributes:
        merges: whether it goes into the constants of any layer before it, not of those alone that
            the model rounds itself.
    """

    merges = False

    def affine(self, call: Call) -> tuple[Tensor, Tensor] | None:
        """Return the scale and the shift, which broadcast to the result; None for other calls."""
        return None


class Borrowed(Interface):
    """Passes insert it, and models have it too.

    Attributes:
        also_for: the role that passes ask for (`shrink`).
    """

    also_for: ClassVar[str]
