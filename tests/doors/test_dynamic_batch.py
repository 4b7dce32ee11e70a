"""Files whose batch is a symbol: sizes that are computed from it stay symbols."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.emit.flow import lowered


class Flatten(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(18, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.view(x.size(0) * 2, -1)).view(x.size(0), -1)


class Zeros(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.size()
        sums = x.view(batch, channels * height, width).mean(2)
        return sums + torch.zeros(batch, channels * height)


class Shuffle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(1, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        batch, channels, height, width = y.shape
        y = y.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous()
        return y.view(batch, channels, height, width).mean((2, 3)).reshape(batch, -1)


class ClassToken(nn.Module):
    """A vision transformer's head: a token before all patches, and attention of two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.qkv = nn.Conv2d(1, 16, 3, 3), nn.Linear(16, 48)
        self.token = nn.Parameter(torch.randn(1, 1, 16))

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(x.shape[0], -1, -1), y], 1)
        batch, tokens, width = y.shape
        q, k, v = (
            self.qkv(y).reshape(batch, tokens, 3, 2, width // 2).permute(2, 0, 3, 1, 4).unbind(0)
        )
        scores = (q @ k.transpose(-2, -1) * (width // 2) ** -0.5).softmax(-1)
        return (scores @ v).transpose(1, 2).reshape(batch, tokens, width)[:, 0]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTM(6, 4, batch_first=True, bidirectional=True)
        self.second, self.third = nn.GRU(8, 3, batch_first=True), nn.RNN(3, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.first(x.squeeze(1))
        return self.third(self.second(y)[0])[0][:, -1]


@pytest.mark.parametrize("kind", [Flatten, Zeros, Shuffle, ClassToken, Recurrent])
def test_sizes_of_a_symbolic_batch_stay_symbols(kind: type[nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, path = kind().eval(), tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (torch.randn(2, 1, 6, 6),), str(path), dynamo=False, opset_version=17,
            input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
        )  # fmt: skip
    graph = mase_hw.trace(path)
    inputs = torch.randn(5, 1, 6, 6)
    assert torch.allclose(graph(inputs), model(inputs), atol=1e-6)
    lowered(mase_hw.quantize(graph))
