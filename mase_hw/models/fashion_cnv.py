"""CNV, six convolutions and three linear layers of signs or of two bits on images of clothes.

The topology is that of Umuroglu et al. (2017), arXiv:1612.07119, with a quarter of its channels;
images are padded to the 32 x 32 pixels that it takes, and its first layer sees eight bits of each.
"""

from __future__ import annotations

from torch import nn

from mase_hw.models._base import RegisteredModel
from mase_hw.models._few_bits import FewBits, FewBitsConv2d, FewBitsLinear, Pixels, config_of


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
