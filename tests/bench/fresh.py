"""Models whose samples are drawn, and what formats that are found for few of them keep of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.bench.base import Row, timed

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

    Case = tuple[nn.Module, Callable[[int, Generator], Tensor]]

# Samples that formats are found for, and fresh ones.
FOUND_ON, FRESH = 2000, 10_000
KEPT_DB, WITHIN_DB = 30.0, 1.0
POINTS, BEYOND = 1.0, 0.5
SECONDS = 10.0


def _cases() -> Mapping[str, Callable[[], Case]]:
    """Return makers of models and of samples, by name."""
    import torch
    from torch import nn

    def normal(*shape: int) -> Callable[[int, Generator], Tensor]:
        return lambda count, generator: torch.randn(count, *shape, generator=generator)

    def even(*shape: int) -> Callable[[int, Generator], Tensor]:
        return lambda count, generator: torch.rand(count, *shape, generator=generator)

    def long_tailed(count: int, generator: Generator) -> Tensor:
        return torch.randn(count, 10, generator=generator).mul(0.6).exp()

    def walk(count: int, generator: Generator) -> Tensor:
        return torch.randn(count, 16, 3, generator=generator).cumsum(1) / 4

    def time_first(count: int, generator: Generator) -> Tensor:
        return walk(count, generator).transpose(0, 1).contiguous()

    class Last(nn.Module):
        def __init__(self, *, batch_first: bool) -> None:
            super().__init__()
            self.cells = nn.LSTM(3, 8, batch_first=batch_first)
            self.classes = nn.Linear(8, 4)
            self.dim = 1 if batch_first else 0

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.classes(self.cells(x)[0].select(self.dim, -1))
            return found

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = nn.Linear(8, 24), nn.LayerNorm(8)
            self.last = nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            query, key, value = self.first(x).chunk(3, -1)
            mixed = nn.functional.scaled_dot_product_attention(query, key, value)
            found: Tensor = self.last(self.norm(x + mixed).mean(1))
            return found

    def offset() -> nn.Module:
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
        with torch.no_grad():
            last: Any = model[2]
            last.bias += 100.0
            last.weight[0] *= 30.0
        return model

    def layers(*sizes: int, act: type[nn.Module] = nn.ReLU) -> nn.Module:
        found: list[nn.Module] = []
        for size, following in pairwise(sizes):
            found += [nn.Linear(size, following), act()]
        return nn.Sequential(*found[:-1])

    images = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)
    signals = nn.Conv1d(3, 6, 3), nn.BatchNorm1d(6), nn.ReLU(), nn.Flatten(), nn.Linear(84, 4)

    def signal(count: int, generator: Generator) -> Tensor:
        return walk(count, generator).transpose(1, 2).contiguous()

    return {
        "perceptron": lambda: (layers(16, 32, 5), normal(16)),
        "perceptron, long tails": lambda: (layers(10, 24, 6), long_tailed),
        "perceptron, GELU": lambda: (layers(12, 24, 24, 4, act=nn.GELU), normal(12)),
        "perceptron, tanh": lambda: (layers(8, 16, 3, act=nn.Tanh), even(8)),
        "regression near 100, two scales": lambda: (offset(), normal(8)),
        "linear": lambda: (nn.Linear(20, 7), normal(20)),
        "image network": lambda: (nn.Sequential(*images), even(1, 8, 8)),
        "signal network": lambda: (nn.Sequential(*signals), signal),
        "LSTM": lambda: (Last(batch_first=True), walk),
        "LSTM, time first": lambda: (Last(batch_first=False), time_first),
        "attention": lambda: (Attention(), normal(6, 8)),
        "softmax": lambda: (nn.Sequential(layers(8, 16, 5), nn.Softmax(-1)), normal(8)),
    }


def fresh(quick: bool) -> Iterator[Row]:
    """Find formats on few samples, and compare what they are said to keep with many others."""
    import torch

    apart, beyond, missed, times = [], [], [], []
    for name, make in list(_cases().items())[: 2 if quick else None]:
        torch.manual_seed(0)
        model, draw = make()
        model.eval()
        inputs = draw(FOUND_ON, torch.Generator().manual_seed(1))
        others = draw(FRESH, torch.Generator().manual_seed(2))
        with timed() as spent:
            row, own = _decibels(name, model, inputs, others)
        times.append(spent.cpu)
        yield row
        apart.append(own[0])
        missed.append(own[1])
        row, points = _accuracy(name, model, inputs, others)
        yield row
        beyond.append(points)
    yield Row(
        f"{len(apart)} models: held-out figure / {FRESH} fresh samples, at most apart",
        f"{max(apart):.2f} dB; {max(missed):.2f} dB below the goal; {max(times):.1f} CPU s",
        f"<= {WITHIN_DB:g} dB",
        max(apart) <= WITHIN_DB,
    )
    yield Row(
        f"{len(apart)} models: accuracy of {FRESH} fresh samples beyond its interval",
        f"{max(beyond):.2f} points",
        f"<= {BEYOND:g} points",
        max(beyond) <= BEYOND,
    )


def _decibels(
    name: str, model: nn.Module, inputs: Tensor, others: Tensor
) -> tuple[Row, tuple[float, float]]:
    """Return a row, how far its two figures are apart, and how far the goal is missed."""
    import torch

    import mase_hw
    from mase_hw.emit.flow import canonicalize
    from mase_hw.graph.agreement import closeness
    from mase_hw.graph.judgements import judgements

    graph = mase_hw.trace(model, inputs)
    found = mase_hw.fit_formats(graph, min_sqnr=KEPT_DB)
    (how,) = judgements(canonicalize(graph)).values()
    with torch.no_grad():
        truth = closeness(model(others), found.graph(others), how).sqnr_db or 0.0
    said = found.result.sqnr_db
    low, high = found.result.intervals["output"]
    row = Row(
        f"{name}: held-out figure; fresh",
        f"{said:.1f} dB ({low:.1f} to {high:.1f}); {truth:.1f} dB",
        f"within {WITHIN_DB:g} dB",
        abs(said - truth) <= WITHIN_DB,
    )
    return row, (abs(said - truth), max(KEPT_DB - truth, 0.0))


def _accuracy(name: str, model: nn.Module, inputs: Tensor, others: Tensor) -> tuple[Row, float]:
    """Return a row, and points by which the accuracy on fresh samples is beyond the interval."""
    import torch

    import mase_hw

    generator = torch.Generator().manual_seed(3)

    def labels(values: Tensor) -> Tensor:
        """Return classes that the model has right in about nine of ten."""
        with torch.no_grad():
            classes = model(values).argmax(1)
        wrong = torch.rand(len(classes), generator=generator) < 0.1
        return torch.where(wrong, (classes + 1) % (int(classes.max()) + 1), classes)

    found = mase_hw.fit_formats(
        mase_hw.trace(model, inputs), labels=labels(inputs), max_drop=POINTS, prepare=False
    )
    classes = labels(others)
    with torch.no_grad():
        truth = float((found.graph(others).argmax(1) == classes).double().mean())
    assert found.result.scored is not None
    low, high = found.result.scored.interval
    beyond = 100.0 * max(low - truth, truth - high, 0.0)
    row = Row(
        f"{name}: accuracy; fresh",
        f"{found.result.accuracy:.4f} ({low:.4f} to {high:.4f}); {truth:.4f}",
        f"<= {BEYOND:g} points beyond",
        beyond <= BEYOND,
    )
    return row, beyond
