"""What passes that change or place constants ask of an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from mase_hw.ops._base import Attributes, Call
from mase_hw.ops._interface import Interface


class Weighted(Interface):
    """What its constant `weight` means.

    Attributes:
        result_axis: dimension of `weight` that counts results.
        scales: true when a scale of the results may be folded into `weight` and `bias`.
        prunable: whether zeros among its weights save work.
    """

    result_axis = 0
    scales = False
    prunable = True

    def repeats(self, call: Call) -> dict[str, int]:
        """Return how often one inference takes the whole of each constant that may lie outside.

        Such a constant may come late.
        """
        return {}

    def as_module(self, call: Call) -> nn.Module | None:
        """Return a module of torch that computes the call, None where there is none.

        It has the constants as parameters of their operands' names, in any values, so that
        libraries which work on modules, such as those for adapters, can work on a graph's nodes.
        """
        return None


class Configured(Interface):
    """Its arithmetic can be chosen.

    Attributes:
        options: the keys of a configuration that are none of a number format's, and their values;
            a call has those that are given among its attributes.
    """

    options: ClassVar[Mapping[str, range]] = {}

    def notes(self, call: Call) -> list[str]:
        """Notes on the arithmetic of a call that has hardware."""
        return []


class Gained(Interface):
    """Factors of its results, along the last dimension, may become its `weight`, or part of it.

    They may be folded into `weight` and `bias` where it has them.
    """


class Normalizing(Interface):
    """A norm of rows, which of fewer elements is the norm of those.

    Each result is its own element of the first operand, in units of statistics of the row.
    """


class Prepared(Interface):
    """Its constants are quantised in another form than the graph holds; by default as they are."""

    def prepare(self, constants: Mapping[str, Tensor], arguments: Attributes) -> dict[str, Tensor]:
        """Return the constants that are quantised, from those the graph holds; differentiable."""
        return dict(constants)

    def prepare_training(
        self,
        constants: Mapping[str, Tensor],
        arguments: Attributes,
        streams: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Constants as `prepare` makes them in training, on the streams of one batch.

        Statistics that training moves are moved here, in place.
        """
        return self.prepare(constants, arguments)
