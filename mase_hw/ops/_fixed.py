"""What operators on fixed-point codes share."""

from __future__ import annotations

from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats.fixed import Fixed
from mase_hw.geometry.tensor import TensorSpec


def fixed(spec: TensorSpec) -> Fixed:
    """Return the fixed-point format of a tensor.

    Raises:
        UnsupportedError: when the tensor has another format, or none.
    """
    if not isinstance(spec.format, Fixed):
        raise UnsupportedError(f"{spec.format} is not fixed point")
    return spec.format


def align(codes: Tensor, number_format: Fixed, frac_width: int) -> Tensor:
    """Return `codes` with `frac_width` fraction bits, at least those of `number_format`."""
    return codes << (frac_width - number_format.frac_width)
