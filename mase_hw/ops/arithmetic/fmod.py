"""What is left of a division (torch.fmod): `y = x - d trunc(x / d)`, of the sign of `x`."""

from __future__ import annotations

from mase_hw.ops.arithmetic.remainder import Remainder


class Fmod(Remainder):
    """Its quotient is rounded towards zero."""

    name = "fmod"
    targets = ("aten.fmod.Scalar", "aten.fmod.Tensor")
    mode = "trunc"
