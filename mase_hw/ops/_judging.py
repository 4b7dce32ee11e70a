"""What comparison with the float model asks of an operator."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from mase_hw.ops._base import Call
from mase_hw.ops._interface import Interface


class Judged(Interface):
    """How its results are judged, see `mase_hw.graph.agreement`.

    Attributes:
        channel_axis: dimension of its results' channels; None for that of its operand.
        one_scale: true when results of all channels are in one scale, as probabilities are.
        row_unit: `factor` or `offset`: what a reduction of a row is for the row, so that an
            operator of the same word, which applies it, has results in one scale.
    """

    channel_axis: ClassVar[int | None] = None
    one_scale: ClassVar[bool] = False
    row_unit: ClassVar[str] = ""


class Ranking(Interface):
    """Returns indices of elements in their order, which equal elements leave open."""

    @abstractmethod
    def tied(self, call: Call, data: Tensor) -> Tensor:
        """Return true by row where an equal element stands on the other side of a border."""
