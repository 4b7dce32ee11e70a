"""What is left of a division (torch.fmod): `y = x - d trunc(x / d)`, of the sign of `x`."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops.arithmetic.remainder import Remainder


class Fmod(Remainder):
    """Its quotient is rounded towards zero."""

    name: ClassVar[str] = "fmod"
    targets: ClassVar[tuple[str, ...]] = ("aten.fmod.Scalar", "aten.fmod.Tensor")
    mode: ClassVar[str] = "trunc"
