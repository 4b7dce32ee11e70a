"""The place between two layers that run on the same hardware, one after the other."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops._base import Apply, Example, example_values, torch_target
from mase_hw.ops._library import define_identity
from mase_hw.ops._moves import Wire

define_identity("lap")


class Lap(Wire):
    """The identity; before the first, between and behind the last of layers that are alike.

    All of them are in one number format, so that what leaves a layer enters the next one as it is.
    In hardware there is one layer. The first lap becomes the place where activations enter it, from
    before or from its end, and the last one the place where they leave it or go back.
    """

    name: ClassVar[str] = "lap"
    targets: ClassVar[tuple[str, ...]] = ("mase.lap.default",)
    role: ClassVar[str | None] = "lap"
    casts: ClassVar[bool] = True
    shares_format: ClassVar[bool] = True

    def examples(self) -> list[Example]:
        """One alone, which is a wire."""
        target = torch_target(self.targets[0])
        return [(Apply(lambda x: target(x)), (example_values(3, 5),))]
