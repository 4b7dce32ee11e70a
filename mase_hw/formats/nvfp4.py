"""NVFP4: 4-bit floats in blocks of 16 that share a scale E4M3, and a scale of the tensor.

Value set: `element * block_scale * tensor_scale`, the element E2M1 (maximum 6), the block scale
E4M3 from 2**-6 to 448, the tensor scale a float32. Block rule: `block_scale = amax / 6 /
tensor_scale` rounded to nearest even in E4M3 and bounded to that range. Elements round to nearest,
ties to even, saturate, and keep denormals and both zeros. Infinities saturate; NaN is refused.
A row that the block size does not divide ends with a shorter block.

Source: NVIDIA, "Introducing NVFP4 for Efficient and Accurate Low-Precision Inference" (2025); the
smallest scale is E4M3's smallest normal number as in torchao's prototype.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from mase_hw._kinds import Setting
from mase_hw.errors import FormatError
from mase_hw.formats._block import BlockFormat, PowerScale
from mase_hw.formats._checks import check_positive
from mase_hw.formats._encoding import Encoding
from mase_hw.formats._float import FloatElement

ELEMENT = FloatElement(2, 1, 1)
SCALE = FloatElement(4, 3, 7, "nan")
LEAST_SCALE = 2.0**-6
LEAST_SCALE_CODE = 8
SCALE_BITS = 8


@dataclass(frozen=True)
class NVFP4(BlockFormat):
    """4-bit floats with a fine block scale.

    Attributes:
        block_size: elements that share a scale, 16 in the source.
        axis: dimension along which a block lies.
        tensor_scale: the scale of the whole tensor.
    """

    name = "nvfp4"
    abbreviation = "nvfp"
    fitted = ("tensor_scale",)
    inherited = ("block_size",)
    exact_bits = 46

    block_size: int = 16
    axis: int = -1
    tensor_scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.name, "tensor_scale", self.tensor_scale)
        self._set(ELEMENT, PowerScale(SCALE_BITS, 0, SCALE.maximum_code + 1))

    @property
    def blocking(self) -> tuple[int, int]:
        return self.block_size, self.axis

    def _divided(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return blocks divided by their scales, and the block scales as reals, float64."""
        blocks = self._blocks(values.double() / self.tensor_scale)
        finite = torch.finfo(torch.float32).max
        largest = blocks.abs().nan_to_num(0.0, posinf=finite).amax(-1, keepdim=True)
        scales = SCALE.round(largest / ELEMENT.maximum).clamp(min=LEAST_SCALE)
        return blocks / scales, scales

    def round_values(self, values: Tensor) -> Tensor:
        if not values.numel():
            return values.clone()
        scaled, scales = self._divided(values)
        rounded = ELEMENT.round(scaled) * scales * self.tensor_scale
        return self._unblock(rounded, values.shape).to(values.dtype)

    def headroom(self, values: Tensor) -> Tensor:
        if not values.numel():
            return torch.zeros_like(values)
        scaled, _ = self._divided(values)
        return self._unblock(ELEMENT.clip - scaled.abs(), values.shape)

    def encode(self, values: Tensor) -> Tensor:
        """Return int64 codes: the scale's above the element's."""
        if bool(torch.isnan(values).any()):
            raise FormatError(f"{self} has no code for NaN; the data holds at least one")
        if not values.numel():
            return torch.zeros(values.shape, dtype=torch.int64)
        scaled, scales = self._divided(values.detach())
        codes = (SCALE.encode(scales) << ELEMENT.width) | ELEMENT.encode(scaled)
        return self._unblock(codes, values.shape)

    @property
    def real_scale(self) -> Fraction:
        return Fraction(self.tensor_scale)

    def unscaled(self) -> NVFP4:
        """Return the format with a tensor scale of 1."""
        return replace(self, tensor_scale=1.0)

    def significands(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values over the tensor's scale as int64 significands and exponents of two."""
        elements, exponents = ELEMENT.scaled(codes & ((1 << ELEMENT.width) - 1))
        scales, places = SCALE.scaled(codes >> ELEMENT.width)
        return elements * scales, exponents + places

    def decode(self, codes: Tensor) -> Tensor:
        scales = SCALE.decode(codes >> ELEMENT.width)
        elements = ELEMENT.decode(codes & ((1 << ELEMENT.width) - 1))
        return elements * scales * self.tensor_scale

    def from_scaled(self, integers: Tensor, exponents: Tensor) -> Tensor:
        """Round integers up to `exact_bits`.

        Quotients in float64 are then on the right side of every tie: a block scale has four bits,
        and a quotient that is no tie differs from it in the last bit of the integer or above.
        """
        if integers.numel() and int(integers.abs().max()) >= 1 << self.exact_bits:
            raise FormatError(
                f"{self} casts integers up to {self.exact_bits} bits; the data exceeds that"
            )
        return self.encode(integers.double() * torch.exp2(exponents.double()))

    def random_codes(self, shape: Any, generator: torch.Generator) -> Tensor:
        elements = ELEMENT.random_codes(tuple(shape), generator)
        if not elements.numel():
            return elements
        blocks = self._blocks(elements)
        drawn = (*blocks.shape[:-1], 1)
        high = SCALE.maximum_code + 1
        scales = torch.randint(LEAST_SCALE_CODE, high, drawn, generator=generator)
        return self._unblock((scales << ELEMENT.width) | blocks, elements.shape)

    @property
    def encoding(self) -> Encoding:
        return replace(super().encoding, scale_is_float=True, scale_bias=-SCALE.lsb_exponent)

    @classmethod
    def fit(cls, minimum: float, maximum: float, **fields: Setting) -> NVFP4:
        """Return the format whose tensor scale maps the range's end to the largest value."""
        largest = max(abs(minimum), abs(maximum))
        if "tensor_scale" in fields or largest == 0:
            return cls(**fields)
        exact = largest / (ELEMENT.maximum * SCALE.maximum)
        rounded = float(torch.tensor(exact, dtype=torch.float32))
        return cls(**{**fields, "tensor_scale": max(rounded, 2.0**-126)})
