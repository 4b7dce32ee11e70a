"""Small models, one for each kind of layer that tools for neural networks on FPGAs test.

They are of the kinds in the PyTorch tests of hls4ml (https://github.com/fastmachinelearning/hls4ml),
written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mase_hw._kinds import Setting

if TYPE_CHECKING:
    from torch import Tensor, nn

Sample = tuple["nn.Module", "list[Tensor]"]
# A name, a model, and what its inputs are made of.
Row = tuple[Any, ...]


def small_models() -> dict[str, Callable[[], Sample]]:
    """Return the models by name: each builds a module with random weights, and its inputs."""
    listed = [*_dense(), *_elements(), *_images(), *_merges(), *_moves(), *_sequences(), *_whole()]
    return {name: _seeded(*item) for name, *item in listed}


def _seeded(build: Callable[[], Any], *shapes: tuple[int, ...]) -> Callable[[], Sample]:
    def sample() -> Sample:
        import torch

        torch.manual_seed(0)
        made = build()
        inputs = [torch.randn(shape) for shape in shapes]
        return (made if isinstance(made, torch.nn.Module) else _Function(made)).eval(), inputs

    return sample


def _Function(function: Callable[..., Any]) -> nn.Module:  # noqa: N802
    from mase_hw.ops import Apply

    return Apply(function)


def _dense() -> Iterator[Row]:
    from torch import nn

    yield "linear", lambda: nn.Linear(6, 4), (2, 6)
    yield "linear without bias", lambda: nn.Linear(6, 4, bias=False), (2, 6)
    yield "linear on rows", lambda: nn.Linear(4, 3), (2, 3, 4)
    yield "two layers", lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), (2, 6)
    yield (
        "batch_norm of features",
        lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)),
        (2, 5),
    )
    yield "batch_norm alone", lambda: nn.BatchNorm1d(5), (2, 5)
    yield "batch_norm of images", lambda: nn.BatchNorm2d(3), (2, 3, 4, 4)
    yield "batch_norm without factors", lambda: nn.BatchNorm1d(5, affine=False), (2, 5)
    yield "layer_norm", lambda: nn.LayerNorm(6), (2, 3, 6)
    yield "layer_norm without factors", lambda: nn.LayerNorm(6, elementwise_affine=False), (2, 6)
    yield "dropout", lambda: nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5)), (2, 5)


def _elements() -> Iterator[Row]:
    import torch
    from torch import nn

    layers: list[Callable[[], nn.Module]] = [
        nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.PReLU, nn.Sigmoid, nn.Tanh, nn.Hardsigmoid,
        nn.Hardtanh, nn.Softplus, nn.Softsign, nn.ReLU6, nn.SiLU, nn.GELU,
    ]  # fmt: skip
    for layer in layers:
        yield layer.__name__, layer, (2, 7)
    yield "Threshold", lambda: nn.Threshold(0.1, 0.0), (2, 7)
    yield "Softmax", lambda: nn.Softmax(dim=-1), (2, 7)
    yield "Softmax of rows", lambda: nn.Softmax(dim=-1), (2, 3, 5)
    yield "relu as a function", lambda: torch.relu, (2, 7)
    yield "tanh as a function", lambda: torch.tanh, (2, 7)
    yield "sigmoid as a function", lambda: torch.sigmoid, (2, 7)
    yield "leaky relu as a function", lambda: lambda x: nn.functional.leaky_relu(x, 0.3), (2, 7)
    yield "sine and cosine", lambda: lambda x: torch.sin(x) + torch.cos(x), (2, 7)
    yield "a clip", lambda: lambda x: x.clamp(-0.5, 0.75), (2, 7)


def _images() -> Iterator[Row]:
    from torch import nn

    image, signal = (2, 3, 6, 5), (2, 3, 9)
    yield "conv1d", lambda: nn.Conv1d(3, 4, 3), signal
    yield "conv1d, padding and stride", lambda: nn.Conv1d(3, 4, 3, stride=2, padding=1), signal
    yield "conv1d, same", lambda: nn.Conv1d(3, 4, 3, padding="same"), signal
    yield "conv2d", lambda: nn.Conv2d(3, 4, 3), image
    yield "conv2d, padding and stride", lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), image
    yield "conv2d, one pixel", lambda: nn.Conv2d(3, 4, 1), image
    yield "conv2d, oblong", lambda: nn.Conv2d(3, 2, (3, 2), bias=False), image
    yield "depthwise conv1d", lambda: nn.Conv1d(3, 3, 3, groups=3), signal
    yield "depthwise conv2d", lambda: nn.Conv2d(3, 3, 3, groups=3), image
    yield (
        "separable conv2d",
        lambda: nn.Sequential(nn.Conv2d(3, 3, 3, groups=3), nn.Conv2d(3, 4, 1)),
        image,
    )
    yield "transposed conv2d", lambda: nn.ConvTranspose2d(3, 2, 2, stride=2), (2, 3, 3, 3)
    yield (
        "conv, batch_norm, relu",
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()),
        image,
    )
    yield "max pool of signals", lambda: nn.MaxPool1d(2), signal
    yield "average pool of signals", lambda: nn.AvgPool1d(2), signal
    yield "max pool", lambda: nn.MaxPool2d(2), image
    yield "max pool, padding", lambda: nn.MaxPool2d(3, 2, padding=1), image
    yield "average pool", lambda: nn.AvgPool2d(2), image
    yield (
        "average pool, padding",
        lambda: nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
        image,
    )
    yield "global average", lambda: nn.AdaptiveAvgPool2d(1), image
    yield "global maximum", lambda: nn.AdaptiveMaxPool2d(1), image
    yield "upsampling, nearest", lambda: nn.UpsamplingNearest2d(scale_factor=2), (2, 2, 3, 3)
    yield "upsampling, bilinear", lambda: nn.UpsamplingBilinear2d(scale_factor=2), (2, 2, 3, 3)
    yield "zero padding of signals", lambda: nn.ConstantPad1d(2, 0.0), signal
    yield "zero padding", lambda: nn.ZeroPad2d((1, 2, 0, 1)), image


def _merges() -> Iterator[Row]:
    import torch

    pair = (2, 6), (2, 6)
    yield "add", lambda: lambda x, y: x + y, *pair
    yield "subtract", lambda: lambda x, y: x - y, *pair
    yield "multiply", lambda: lambda x, y: x * y, *pair
    yield "average", lambda: lambda x, y: (x + y) / 2, *pair
    yield "maximum", lambda: lambda x, y: torch.maximum(x, y), *pair
    yield "minimum", lambda: lambda x, y: torch.minimum(x, y), *pair
    yield "concat", lambda: lambda x, y: torch.cat([x, y], 1), *pair
    yield (
        "concat of channels",
        lambda: lambda x, y: torch.cat([x, y], 1),
        (2, 2, 3, 3),
        (2, 1, 3, 3),
    )
    yield "dot", lambda: lambda x, y: (x * y).sum(-1, keepdim=True), *pair
    yield "matrix product", lambda: lambda x, y: x @ y, (2, 3, 4), (2, 4, 2)
    yield "einsum", lambda: lambda x, y: torch.einsum("bij,bjk->bik", x, y), (2, 3, 4), (2, 4, 2)
    yield "einsum, outer", lambda: lambda x, y: torch.einsum("bi,bj->bij", x, y), *pair
    yield "einsum, of rows", lambda: lambda x, y: torch.einsum("bij,bkj->bik", x, y), (2, 3, 4), (
        2, 2, 4,
    )  # fmt: skip


def _moves() -> Iterator[Row]:
    import torch
    from torch import nn

    yield "flatten", lambda: nn.Flatten(), (2, 2, 3, 2)
    yield "reshape", lambda: lambda x: x.reshape(-1, 3, 4), (2, 12)
    yield "view and permute", lambda: lambda x: x.view(-1, 3, 4).permute(0, 2, 1), (2, 12)
    yield "transpose", lambda: lambda x: x.transpose(1, 2), (2, 3, 4)
    yield "squeeze and unsqueeze", lambda: lambda x: x.unsqueeze(1).squeeze(2), (2, 1, 5)
    yield "flip", lambda: lambda x: torch.flip(x, [1]), (2, 5, 2)
    yield "a slice", lambda: lambda x: x[:, 1:4] * 2.0, (2, 6)


def _sequences() -> Iterator[Row]:
    from torch import nn

    class Recurrent(nn.Module):
        """Every step, from states of zero or those that come."""

        def __init__(self, layer: nn.Module, cells: bool = False) -> None:
            super().__init__()
            self.layer, self.cells = layer, cells

        def forward(self, x: Tensor, *states: Tensor) -> Any:
            """Leave the last states out."""
            if not states:
                return self.layer(x)[0]
            given = [state.transpose(0, 1) for state in states]
            return self.layer(x, tuple(given) if self.cells else given[0])[0]

    rows, state = (2, 3, 4), (2, 1, 5)
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        name, cells = kind.__name__, kind is nn.LSTM
        states = (state, state) if cells else (state,)

        def layer(kind: Any = kind, cells: bool = cells, **options: Setting) -> nn.Module:
            return Recurrent(kind(4, 5, batch_first=True, **options), cells)

        def both(make: Callable[..., nn.Module] = layer) -> nn.Module:
            return make(bidirectional=True)

        def bare(make: Callable[..., nn.Module] = layer) -> nn.Module:
            return make(bias=False)

        yield name, layer, rows
        yield f"{name} with states", layer, rows, *states
        yield f"{name}, both directions", both, rows
        yield f"{name} without bias", bare, rows
    yield "MultiheadAttention", lambda: _Attention(), rows


def _Attention() -> nn.Module:  # noqa: N802
    from torch import nn

    class Attention(nn.Module):
        """Of a sequence to itself."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Tensor) -> Any:
            """Leave the weights out."""
            return self.layer(x, x, x)[0]

    return Attention()


def _whole() -> Iterator[Row]:
    import torch
    from torch import nn

    class Skip(nn.Module):
        """A block whose input is added to its result."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 1)

        def forward(self, x: Tensor) -> Tensor:
            """Add."""
            return torch.relu(self.second(torch.relu(self.first(x))) + x)

    yield "skip connection", Skip, (2, 3, 4, 4)
    yield (
        "small network of convolutions",
        lambda: nn.Sequential(
            nn.Conv2d(1, 3, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(12, 4),
            nn.Softmax(-1),
        ),
        (2, 1, 6, 6),
    )
