"""SFC, a perceptron 784-256-256-256-10 of signs or of two bits on handwritten digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mase_hw.models._few_bits import FewBitsPerceptron, config_of


class MnistSFC(FewBitsPerceptron):
    """Weights and activations of one bit."""

    name: ClassVar[str] = "mnist-sfc"
    hidden: ClassVar[int] = 256


class MnistSFCW2A2(FewBitsPerceptron):
    """Weights and activations of two bits."""

    name: ClassVar[str] = "mnist-sfc-w2a2"
    hidden: ClassVar[int] = 256
    bits: ClassVar[int] = 2
    config: ClassVar[Mapping[str, object]] = config_of(2)
