"""MobileNetV1 of four bits on images of clothes: depthwise and pointwise convolutions in turn.

The topology is that of Howard et al., "MobileNets: Efficient Convolutional Neural Networks for
Mobile Vision Applications" (2017), arXiv:1704.04861, with a quarter of its channels, for images
of 32 x 32 pixels: its first layer does not skip any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import nn

from mase_hw.models._base import RegisteredModel
from mase_hw.models._few_bits import (
    FewBits,
    FewBitsConv2d,
    FewBitsLinear,
    Pixels,
    config_of,
    fields,
    sums,
)

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
