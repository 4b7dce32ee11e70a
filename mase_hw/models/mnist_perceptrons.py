"""LFC, SFC and TFC: perceptrons with three equal layers of 1024, 256 or 64 on handwritten digits.

Weights and activations have one bit, or two where the name ends in `-w2a2`.
"""

from __future__ import annotations

from mase_hw.models._few_bits import FewBitsPerceptron, config_of


class MnistLFC(FewBitsPerceptron):
    """784-1024-1024-1024-10 of one bit."""

    name = "mnist-lfc"
    hidden = 1024
    epochs = 15


class MnistLFCW2A2(MnistLFC):
    """784-1024-1024-1024-10 of two bits."""

    name = "mnist-lfc-w2a2"
    bits = 2
    config = config_of(2)


class MnistSFC(FewBitsPerceptron):
    """784-256-256-256-10 of one bit."""

    name = "mnist-sfc"
    hidden = 256


class MnistSFCW2A2(MnistSFC):
    """784-256-256-256-10 of two bits."""

    name = "mnist-sfc-w2a2"
    bits = 2
    config = config_of(2)


class MnistTFC(FewBitsPerceptron):
    """784-64-64-64-10 of one bit."""

    name = "mnist-tfc"
    hidden = 64


class MnistTFCW2A2(MnistTFC):
    """784-64-64-64-10 of two bits."""

    name = "mnist-tfc-w2a2"
    bits = 2
    config = config_of(2)
