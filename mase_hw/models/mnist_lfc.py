"""LFC, a perceptron 784-1024-1024-1024-10 of signs or of two bits on handwritten digits."""

from __future__ import annotations

from mase_hw.models._few_bits import FewBitsPerceptron, config_of


class MnistLFC(FewBitsPerceptron):
    """Weights and activations of one bit."""

    name = "mnist-lfc"
    hidden = 1024
    epochs = 15


class MnistLFCW2A2(FewBitsPerceptron):
    """Weights and activations of two bits."""

    name = "mnist-lfc-w2a2"
    hidden = 1024
    epochs = 15
    bits = 2
    config = config_of(2)
