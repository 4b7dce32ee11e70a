"""TFC, a perceptron 784-64-64-64-10 of signs or of two bits on handwritten digits."""

from __future__ import annotations

from mase_hw.models._few_bits import FewBitsPerceptron, config_of


class MnistTFC(FewBitsPerceptron):
    """Weights and activations of one bit."""

    name = "mnist-tfc"
    hidden = 64


class MnistTFCW2A2(FewBitsPerceptron):
    """Weights and activations of two bits."""

    name = "mnist-tfc-w2a2"
    hidden = 64
    bits = 2
    config = config_of(2)
