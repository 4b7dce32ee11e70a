"""SFC, a perceptron 784-256-256-256-10 of signs or of two bits on handwritten digits."""

from __future__ import annotations

from mase_hw.models._few_bits import FewBitsPerceptron, config_of


class MnistSFC(FewBitsPerceptron):
    """Weights and activations of one bit."""

    name = "mnist-sfc"
    hidden = 256


class MnistSFCW2A2(FewBitsPerceptron):
    """Weights and activations of two bits."""

    name = "mnist-sfc-w2a2"
    hidden = 256
    bits = 2
    config = config_of(2)
