"""TFC, a perceptron 784-64-64-64-10 of signs or of two bits on handwritten digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mase_hw.models._few_bits import FewBitsPerceptron, config_of


class MnistTFC(FewBitsPerceptron):
    """Weights and activations of one bit."""

    name: ClassVar[str] = "mnist-tfc"
    hidden: ClassVar[int] = 64


class MnistTFCW2A2(FewBitsPerceptron):
    """Weights and activations of two bits."""

    name: ClassVar[str] = "mnist-tfc-w2a2"
    hidden: ClassVar[int] = 64
    bits: ClassVar[int] = 2
    config: ClassVar[Mapping[str, object]] = config_of(2)
