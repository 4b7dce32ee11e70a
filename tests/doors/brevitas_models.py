"""Networks of Brevitas, trained for a few steps here so that scales and statistics are real."""

from __future__ import annotations

import torch
from torch import nn


def trained(model, shape, classes=5, steps=30):
    """Train on random clusters; return the model in evaluation mode, and inputs."""
    generator = torch.Generator().manual_seed(1)
    centres = torch.randn(classes, *shape, generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    model.train()
    for _ in range(steps):
        labels = torch.randint(0, classes, (64,), generator=generator)
        x = centres[labels] + 0.5 * torch.randn(64, *shape, generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).flatten(1)[:, :classes], labels)
        loss.backward()
        optimizer.step()
    labels = torch.randint(0, classes, (1000,), generator=generator)
    noise = 0.7 * torch.randn(1000, *shape, generator=generator)
    return model.eval(), centres[labels] + noise


def perceptron():
    """Weights and activations of 3 bits, with normalisation between."""
    import brevitas.nn as qnn

    torch.manual_seed(0)
    model = nn.Sequential(
        qnn.QuantIdentity(bit_width=6),
        qnn.QuantLinear(12, 16, bias=True, weight_bit_width=3),
        nn.BatchNorm1d(16),
        qnn.QuantReLU(bit_width=3),
        qnn.QuantLinear(16, 5, bias=True, weight_bit_width=3),
        qnn.QuantIdentity(bit_width=8),
    )
    return trained(model, (12,))


class Residual(nn.Module):
    """Convolutions of 4 bits with a scale for each channel, around a sum."""

    def __init__(self):
        super().__init__()
        import brevitas.nn as qnn
        from brevitas.quant import Int8WeightPerChannelFloat

        given = {
            "weight_bit_width": 4, "weight_quant": Int8WeightPerChannelFloat, "bias": False,
            "padding": 1,
        }  # fmt: skip
        self.entry = qnn.QuantIdentity(bit_width=8)
        self.first = qnn.QuantConv2d(3, 6, 3, **given)
        self.norm = nn.BatchNorm2d(6)
        self.act = qnn.QuantReLU(bit_width=4)
        self.second = qnn.QuantConv2d(6, 6, 3, **given)
        self.norm2 = nn.BatchNorm2d(6)
        self.middle = qnn.QuantIdentity(bit_width=5)
        self.out = qnn.QuantReLU(bit_width=4)
        self.layer = qnn.QuantLinear(6 * 16, 5, bias=True, weight_bit_width=4)
        self.last = qnn.QuantIdentity(bit_width=8)

    def forward(self, x):
        x = self.act(self.norm(self.first(self.entry(x))))
        y = self.middle(self.norm2(self.second(x)))
        return self.last(self.layer(self.out(x + y).flatten(1)))


def residual():
    torch.manual_seed(0)
    return trained(Residual(), (3, 4, 4))


def signs():
    """Weights of one bit."""
    import brevitas.nn as qnn
    from brevitas.quant import SignedBinaryWeightPerTensorConst

    torch.manual_seed(0)
    given = {"weight_quant": SignedBinaryWeightPerTensorConst, "bias": False}
    model = nn.Sequential(
        qnn.QuantIdentity(bit_width=4),
        qnn.QuantLinear(12, 24, **given),
        nn.BatchNorm1d(24),
        qnn.QuantReLU(bit_width=2),
        qnn.QuantLinear(24, 5, **given),
        qnn.QuantIdentity(bit_width=8),
    )
    return trained(model, (12,))


class Shared(nn.Module):
    """Layers that give each other scales, which a sum of both sides shares; biases of 32 bits."""

    def __init__(self):
        super().__init__()
        import brevitas.nn as qnn
        from brevitas.quant import (
            Int8ActPerTensorFixedPoint,
            Int8WeightPerChannelFloat,
            Int32Bias,
            Uint8ActPerTensorFixedPoint,
        )

        acts = {"act_quant": Int8ActPerTensorFixedPoint, "return_quant_tensor": True}
        layers = {"weight_quant": Int8WeightPerChannelFloat, "bias_quant": Int32Bias, "bias": True}
        self.entry, self.shared = qnn.QuantIdentity(**acts), qnn.QuantIdentity(**acts)
        self.first = qnn.QuantConv2d(3, 4, 3, padding=1, **layers)
        self.second = qnn.QuantConv2d(4, 4, 3, padding=1, **layers)
        self.act = qnn.QuantReLU(act_quant=Uint8ActPerTensorFixedPoint, return_quant_tensor=True)
        self.layer = qnn.QuantLinear(16, 5, **layers)
        self.last = qnn.QuantIdentity(bit_width=8)

    def forward(self, x):
        x = self.shared(self.first(self.entry(x)))
        x = nn.functional.max_pool2d(self.act(x + self.shared(self.second(x))), 2)
        return self.last(self.layer(x.flatten(1)))


def shared():
    torch.manual_seed(0)
    return trained(Shared(), (3, 4, 4))


MODELS = {"perceptron": perceptron, "residual": residual, "shared": shared, "signs": signs}
