"""Networks whose weights and activations have one, two or four bits, as their authors write them.

Everything is written with torch's own operators, in training and at inference; the gradient passes
a rounding where it does not saturate. The topologies are those of Umuroglu et al., "FINN: A
Framework for Fast, Scalable Binarized Neural Network Inference" (2017), arXiv:1612.07119, trained
as Courbariaux et al., "Binarized Neural Networks" (2016), arXiv:1602.02830. Factors behind a layer
are those of its batch normalisation.

LFC, SFC and TFC: perceptrons with three equal layers of 1024, 256 or 64 on handwritten digits.

Weights and activations have one bit, or two where the name ends in `-w2a2`.

CNV, six convolutions and three linear layers of signs or of two bits on images of clothes.

The topology is that of Umuroglu et al. (2017), arXiv:1612.07119, with a quarter of its channels;
images are padded to the 32 x 32 pixels that it takes, and its first layer sees eight bits of each.

MobileNetV1 of four bits on images of clothes: depthwise and pointwise convolutions in turn.

The topology is that of Howard et al., "MobileNets: Efficient Convolutional Neural Networks for
Mobile Vision Applications" (2017), arXiv:1704.04861, with a quarter of its channels, for images
of 32 x 32 pixels: its first layer does not skip any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from mase_hw._kinds import Record
from mase_hw.models._base import RegisteredModel

# Bits of what thresholds stand for, so many that no border between two steps moves.
WIDE = 30


def signs(values: Tensor, *, training: bool) -> Tensor:
    """Return -1 below zero, else 1; in training the gradient passes from -1 to 1."""
    hard = torch.where(values >= 0, 1.0, -1.0)
    return _passing(hard, values.clamp(-1, 1)) if training else hard


def steps(values: Tensor, bits: int, *, signed: bool = True, training: bool) -> Tensor:
    """Return the nearest multiples of a step, from -1 up to 1, or from 0 to 2 without sign."""
    scale = 1 << (bits - 1)
    low, high = (-scale, scale - 1) if signed else (0, 2 * scale - 1)
    hard = (values * scale).round().clamp(low, high) / scale
    return _passing(hard, values.clamp(low / scale, high / scale)) if training else hard


def _passing(hard: Tensor, soft: Tensor) -> Tensor:
    return soft + (hard - soft).detach()


class FewBits(nn.Module):
    """Activations of few bits: signs for one.

    Args:
        bits: of a result.
        signed: whether results may be negative.
        border: what is taken away before.
        gain: what is multiplied with behind that.
    """

    def __init__(
        self, bits: int, *, signed: bool = True, border: float = 0.0, gain: float = 1.0
    ) -> None:
        super().__init__()
        self.bits, self.signed, self.border, self.gain = bits, signed, border, gain

    def forward(self, values: Tensor) -> Tensor:
        """Return the values rounded to the few bits."""
        values = values - self.border if self.border else values
        if self.bits == 1:
            return signs(values, training=self.training)
        values = values * self.gain if self.gain != 1 else values
        return steps(values, self.bits, signed=self.signed, training=self.training)


class Pixels(nn.Module):
    """Numbers from 0 to 1 as the whole numbers from 0 to 255 that they were."""

    def forward(self, values: Tensor) -> Tensor:
        """Return them; no gradient passes."""
        return (values * 255.0).round()


def _few_weights(weight: Tensor, bits: int, training: bool) -> Tensor:
    if bits == 1:
        return signs(weight, training=training)
    return steps(weight, bits, training=training)


def _start(weight: Tensor, bits: int) -> None:
    """Spread weights over all steps; signs change soonest where weights are small, as they are."""
    if bits > 1:
        nn.init.uniform_(weight, -1, 1)


class FewBitsLinear(nn.Linear):
    """A linear layer without bias, of weights of few bits."""

    def __init__(self, inputs: int, outputs: int, bits: int) -> None:
        super().__init__(inputs, outputs, bias=False)
        self.bits = bits
        _start(self.weight, bits)

    def forward(self, values: Tensor) -> Tensor:
        """Return sums `[..., out_features]` of rounded weights."""
        return nn.functional.linear(values, _few_weights(self.weight, self.bits, self.training))


class FewBitsConv2d(nn.Conv2d):
    """A convolution without bias, of weights of few bits; keywords are those of `nn.Conv2d`."""

    def __init__(self, inputs: int, outputs: int, kernel: int, bits: int, **options: int) -> None:
        super().__init__(inputs, outputs, kernel, bias=False, **options)  # type: ignore[arg-type]
        self.bits = bits
        _start(self.weight, bits)

    def forward(self, values: Tensor) -> Tensor:
        """Return sums `[samples, channels, height, width]` of rounded weights."""
        weight = _few_weights(self.weight, self.bits, self.training)
        results: Tensor = self._conv_forward(values, weight, None)
        return results


def config_of(bits: int, *, signed: bool = True, first: str | None = None) -> dict[str, object]:
    """Return formats in which nothing is rounded that the module does not round.

    Args:
        bits: of weights and activations.
        signed: whether activations may be negative.
        first: the node of a convolution that takes `Pixels`, by a regular expression; a
            normalisation must stand behind it, and both at the head of the network.
    """
    # Neighbouring pixels, a 255th apart, must not meet at a border between two steps.
    fraction = 8 if bits == 1 else 10
    weights = fields("weight", bits, bits - 1)
    layer = {"name": "fixed", **fields("data_in", bits, bits - 1, signed), **weights}
    if bits == 1:
        weights, layer = {"weight_name": "binary"}, {"name": "binary"}
    entries: dict[str, object] = {
        "linear": layer,
        "conv2d": layer,
        "sub": {"name": "fixed", **fields("data_in", fraction + 2, fraction)},
        "batch_norm": sums(2 * (bits - 1)),
        "where": {"name": "fixed", **fields("data_in", 2, 0)},
        "max_pool2d": {"name": "fixed", **fields("data_in", max(bits, 2), bits - 1)},
    }
    if first is not None:
        entries[r"pixels_\d+_mul"] = {
            "name": "fixed",
            **fields("data_in_0", 12, 10),
            **fields("data_in_1", 9, 0),
        }
        entries[first] = {"name": "fixed", **fields("data_in", 9, 0), **weights}
        entries[r"batchnorm2d_3"] = sums(bits - 1)
    entries["default"] = {"name": "fixed", "data_in_width": WIDE}
    by = {"by": ["regex_name", "type"]}
    return {**by, **{key: {"config": entry} for key, entry in entries.items()}}


def fields(operand: str, width: int, fraction: int, signed: bool = True) -> Record:
    """Return the entries of an operand in fixed point."""
    given = {"width": width, "frac_width": fraction, "signed": signed}
    return {f"{operand}_{key}": value for key, value in given.items()}


def sums(fraction: int, width: int = 16) -> Record:
    """Return the formats of a normalisation behind exact sums."""
    wide = {f"{name}_width": WIDE for name in ("weight", "bias", "data_out")}
    return {"name": "fixed", **fields("data_in", width, fraction), **wide}


class _FewBitsPerceptron(RegisteredModel):
    """Three hidden layers on handwritten digits, each with a normalisation behind it.

    Attributes:
        hidden: results of a hidden layer.
        bits: of weights, activations and pixels.
    """

    data = "mnist"
    parallelism = 8
    hidden: ClassVar[int]
    bits = 1
    config = config_of(1)

    def build(self, hidden: int | None = None) -> nn.Module:
        """Return the network; `hidden` is the class's when not given."""
        size = self.hidden if hidden is None else hidden
        layers: list[nn.Module] = [nn.Flatten(), FewBits(self.bits, border=0.5, gain=2.0)]
        inputs = 28 * 28
        for _ in range(3):
            layers += [
                FewBitsLinear(inputs, size, self.bits),
                nn.BatchNorm1d(size),
                FewBits(self.bits),
            ]
            inputs = size
        return nn.Sequential(*layers, FewBitsLinear(inputs, 10, self.bits), nn.BatchNorm1d(10))


class MnistLFC(_FewBitsPerceptron):
    """784-1024-1024-1024-10 of one bit."""

    name = "mnist-lfc"
    hidden = 1024
    epochs = 15


class MnistLFCW2A2(MnistLFC):
    """784-1024-1024-1024-10 of two bits."""

    name = "mnist-lfc-w2a2"
    bits = 2
    config = config_of(2)


class MnistSFC(_FewBitsPerceptron):
    """784-256-256-256-10 of one bit."""

    name = "mnist-sfc"
    hidden = 256


class MnistSFCW2A2(MnistSFC):
    """784-256-256-256-10 of two bits."""

    name = "mnist-sfc-w2a2"
    bits = 2
    config = config_of(2)


class MnistTFC(_FewBitsPerceptron):
    """784-64-64-64-10 of one bit."""

    name = "mnist-tfc"
    hidden = 64


class MnistTFCW2A2(MnistTFC):
    """784-64-64-64-10 of two bits."""

    name = "mnist-tfc-w2a2"
    bits = 2
    config = config_of(2)


class FashionCNV(RegisteredModel):
    """Weights and activations of one bit."""

    name = "fashion-cnv"
    data = "fashion-mnist"
    bits = 1
    config = config_of(1, first=r"fewbitsconv2d_2_conv2d")
    parallelism = 4
    epochs = 3
    batch_size = 128

    def build(self, channels: int = 16) -> nn.Module:
        layers: list[nn.Module] = [Pixels(), nn.ZeroPad2d(2)]
        inputs = 1
        for factor in (1, 2, 4):
            for last in (False, True):
                layers += [
                    FewBitsConv2d(inputs, factor * channels, 3, self.bits),
                    nn.BatchNorm2d(factor * channels),
                    FewBits(self.bits),
                ]
                inputs = factor * channels
                if last and factor < 4:
                    layers.append(nn.MaxPool2d(2))
        layers.append(nn.Flatten())
        for _ in range(2):
            layers += [
                FewBitsLinear(inputs, 8 * channels, self.bits),
                nn.BatchNorm1d(8 * channels),
                FewBits(self.bits),
            ]
            inputs = 8 * channels
        return nn.Sequential(*layers, FewBitsLinear(inputs, 10, self.bits), nn.BatchNorm1d(10))


class FashionCNVW2A2(FashionCNV):
    """Weights and activations of two bits."""

    name = "fashion-cnv-w2a2"
    bits = 2
    config = config_of(2, first=r"fewbitsconv2d_2_conv2d")


BITS = 4
# Results of each pair of convolutions, in multiples of the first layer's, and their stride.
PAIRS = ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *[(16, 1)] * 5, (32, 2), (32, 1))


class FashionMobileNet(RegisteredModel):
    """Weights and activations of four bits."""

    name = "fashion-mobilenet"
    data = "fashion-mnist"
    config: ClassVar[Mapping[str, object]] = {
        **config_of(BITS, signed=False, first=r"fewbitsconv2d_2_conv2d"),
        # The mean of four activations has two further bits.
        "linear": {
            "config": {
                "name": "fixed",
                **fields("data_in", BITS + 2, BITS + 1, signed=False),
                **fields("weight", BITS, BITS - 1),
            }
        },
        "adaptive_avg_pool2d": {
            "config": {"name": "fixed", **fields("data_in", BITS, BITS - 1, signed=False)}
        },
        r"batchnorm1d_\d+": {"config": sums(2 * BITS, 20)},
    }
    parallelism = "auto"
    epochs = 3
    batch_size = 128

    def build(self, channels: int = 8) -> nn.Module:
        layers: list[nn.Module] = [Pixels(), nn.ZeroPad2d(2), *_layer(1, channels, 3, padding=1)]
        inputs = channels
        for factor, stride in PAIRS:
            results = factor * channels
            layers += _layer(inputs, inputs, 3, padding=1, stride=stride, groups=inputs)
            layers += _layer(inputs, results, 1)
            inputs = results
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*layers, FewBitsLinear(inputs, 10, BITS), nn.BatchNorm1d(10))


def _layer(inputs: int, results: int, kernel: int, **options: int) -> list[nn.Module]:
    convolution = FewBitsConv2d(inputs, results, kernel, BITS, **options)
    return [convolution, nn.BatchNorm2d(results), FewBits(BITS, signed=False)]
