"""LFC, a perceptron 784-1024-1024-1024-10 of signs or of two bits on handwritten digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mase_hw.models._few_bits import FewBitsPerceptron, config_of


class MnistLFC(FewBitsPerceptron):
    """Weights and activations of one bit."""

    name: ClassVar[str] = "mnist-lfc"
    hidden: ClassVar[int] = 1024
    epochs: ClassVar[int] = 15


class MnistLFCW2A2(FewBitsPerceptron):
    """Weights and activations of two bits."""

    name: ClassVar[str] = "mnist-lfc-w2a2"
    hidden: ClassVar[int] = 1024
    epochs: ClassVar[int] = 15
    bits: ClassVar[int] = 2
    config: ClassVar[Mapping[str, object]] = config_of(2)
