"""The small designs that are mutated, and those that only show what became of a library module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Source:
    """A design: the model, how it is emitted, and whether its circuit is small."""

    name: str
    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    config: Mapping[str, object]
    parallelism: int
    memory: str = "on-chip"
    is_small: bool = True
    inputs: Callable[[], tuple[Tensor, ...]] | None = None

    def examples(self) -> Tensor | tuple[Tensor, ...]:
        """Return example inputs: random numbers of the shape where there are no others."""
        import torch

        return self.inputs() if self.inputs else torch.randn(8, *self.shape)


NARROW = {
    "name": "fixed", "data_in_width": 6, "data_in_frac_width": 3, "weight_width": 6,
    "weight_frac_width": 4,
}  # fmt: skip


def _perceptron() -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))


def _residual() -> nn.Module:
    import torch
    from torch import nn

    class Residual(nn.Module):
        """Two convolutions, the second one beside what it takes, pooling, a classifier."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(1, 2, 3, padding=1)
            self.second = nn.Conv2d(2, 2, 3, padding=1)
            self.pool = nn.MaxPool2d(2)
            self.classify = nn.Linear(8, 3)

        def forward(self, data: Tensor) -> Tensor:
            found = torch.relu(self.first(data))
            found = torch.relu(found + self.second(found))
            result: Tensor = self.classify(torch.flatten(self.pool(found), 1))
            return result

    return Residual()


def _attention() -> nn.Module:
    from torch import nn

    class Attention(nn.Module):
        """Two heads over four tokens, what enters beside them, and a norm."""

        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
            self.norm = nn.LayerNorm(4)

        def forward(self, data: Tensor) -> Tensor:
            heads = [
                layer(data).unflatten(-1, (2, 2)).transpose(1, 2)
                for layer in (self.query, self.key, self.value)
            ]
            found = nn.functional.scaled_dot_product_attention(*heads)
            result: Tensor = self.norm(data + found.transpose(1, 2).flatten(2))
            return result

    return Attention()


def _norms() -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(6, 6), nn.RMSNorm(6), nn.GELU(), nn.LayerNorm(6))


def _cache() -> nn.Module:
    import torch
    from torch import nn

    class Cache(nn.Module):
        """A step that keeps its keys, and weighs what it kept."""

        kept: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(1, 2, 4, 2))

        def forward(self, data: Tensor, position: Tensor) -> Tensor:
            found = self.kept.index_copy_(2, position, data)
            return torch.softmax(found, dim=-1)

    return Cache()


def _steps() -> tuple[Tensor, ...]:
    import torch

    return torch.randn(1, 2, 1, 2), torch.tensor([2])


def _by_type(entry: Mapping[str, object]) -> dict[str, object]:
    return {"by": "type", "default": {"config": dict(entry)}}


SOURCES = {
    source.name: source
    for source in (
        Source("perceptron", _perceptron, (8,), _by_type(NARROW), 2),
        Source("residual", _residual, (1, 4, 4), _by_type(NARROW), 1),
        Source(
            "blocks",
            _perceptron,
            (8,),
            _by_type({"name": "mxint", "data_in_width": 5}),
            2,
            is_small=False,
        ),
        Source("external", _perceptron, (8,), _by_type(NARROW), 2, "external"),
        Source("attention", _attention, (4, 4), _by_type(NARROW), 2, is_small=False),
        Source("norms", _norms, (6,), _by_type(NARROW), 2, is_small=False),
        Source("cache", _cache, (), _by_type(NARROW), 1, is_small=False, inputs=_steps),
    )
}


def _pictures() -> nn.Module:
    """Channels, pixels and windows that tiles do not divide."""
    import torch
    from torch import nn

    class Pictures(nn.Module):
        """Convolutions with a stride and without, a difference, bounds, two kinds of pooling."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 3, 3, padding=1)
            self.second = nn.Conv2d(3, 3, 3, padding=1)
            self.third = nn.Conv2d(3, 4, 2, stride=2)
            self.average = nn.AvgPool2d(2, stride=1)
            self.classify = nn.Linear(8, 3)

        def forward(self, data: Tensor) -> Tensor:
            found = torch.nn.functional.hardtanh(self.first(data), -0.75, 1.25)
            found = torch.relu(found - self.second(found))
            found = self.average(self.third(found))
            result: Tensor = self.classify(torch.flatten(found, 1))
            return result

    return Pictures()


def _bounded() -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(20, 14), nn.Hardtanh(0.25, 1.5), nn.Linear(14, 5))


def _curved() -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(12, 10), nn.SiLU(), nn.Linear(10, 7))


def _narrow() -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(8, 10), nn.Sigmoid(), nn.Linear(10, 4), nn.Linear(4, 3))


def _sum() -> nn.Module:
    from torch import nn

    class Sum(nn.Module):
        """What enters a layer is added to its results."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 6)

        def forward(self, data: Tensor) -> Tensor:
            result: Tensor = data + self.linear(data)
            return result

    return Sum()


def _loud() -> nn.Module:
    """Results that leave the range of their format, and small and large biases in turn."""
    import torch
    from torch import nn

    layers = nn.Linear(4, 12), nn.Linear(12, 8)
    with torch.no_grad():
        for layer in layers:
            layer.weight.mul_(16)
            layer.bias.copy_(2.0 ** (6 * (torch.arange(len(layer.bias)) // 4 % 2) - 2))
    return nn.Sequential(layers[0], nn.ReLU(), layers[1])


# Behind bounds above zero.
UNSIGNED = {
    "by": "name",
    "linear_2": {"config": {**NARROW, "data_in_signed": False, "data_in_rounding": "floor"}},
}
# A library module that is mutated in a design above goes through these, too: tiles that end
# unevenly, several tiles of channels, results that are bounded, numbers without a sign, several
# bursts, rows of several blocks, blocks and sums of one beat, sums of floats, results too large
# for their scale, blocks of floats.
COMPANIONS = (
    Source("pictures", _pictures, (3, 5, 6), _by_type(NARROW), 2),
    Source("bounded", _bounded, (20,), {**_by_type(NARROW), **UNSIGNED}, 3, "external"),
    Source(
        "several blocks",
        _curved,
        (12,),
        _by_type({"name": "mxint", "data_in_width": 5, "data_in_block_size": 4}),
        2,
    ),
    Source(
        "blocks of a beat",
        _narrow,
        (8,),
        _by_type({"name": "mxint", "data_in_width": 6, "data_in_block_size": 4}),
        4,
    ),
    Source("floats", _sum, (6,), _by_type({"name": "fp8_e4m3"}), 2),
    Source(
        "short scales",
        _loud,
        (4,),
        _by_type(
            {
                "name": "mxint",
                "data_in_width": 5,
                "data_in_exponent_width": 3,
                "data_in_block_size": 4,
            }
        ),
        4,
    ),
    Source("blocks of floats", _narrow, (8,), _by_type({"name": "block_minifloat"}), 2),
)
