"""Models that return their loss, one for every loss of torch and more for its options.

Each comes with its loss written anew, as a function of the results and the labels, so that a graph
is compared with what it should say of its own results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw._kinds import Table

CLASSES = 6
FEATURES = 8
IGNORED = -100

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class LossCase:
    """A model with labels.

    Attributes:
        name: of the case.
        build: returns the model; its forward takes a batch by name, and returns `loss` beside other
            results in a dictionary.
        batch: returns inputs and labels of so many rows.
        loss: returns the loss of the model's results and a batch.
    """

    name: str
    build: Callable[[], nn.Module]
    batch: Callable[[int], Batch]
    loss: Callable[[Mapping[str, object], Batch], Tensor]


class _Trained(nn.Module):
    """Two layers, and a loss of what a head makes of their results."""

    def __init__(self, loss: nn.Module, head: Callable[[Tensor], tuple[Tensor, ...]]) -> None:
        super().__init__()
        width = 3 * CLASSES
        self.layers = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, width))
        self.head, self.loss = head, loss

    def forward(self, x: Tensor, **labels: Tensor) -> dict[str, object]:
        scores = self.head(self.layers(x))
        return {"loss": self.loss(*scores, *labels.values()), "scores": scores}


def _scores(x: Tensor) -> tuple[Tensor, ...]:
    return (x[:, :CLASSES],)


def _two(x: Tensor) -> tuple[Tensor, ...]:
    return x[:, :CLASSES], x[:, CLASSES : 2 * CLASSES]


def _three(x: Tensor) -> tuple[Tensor, ...]:
    return *_two(x), x[:, 2 * CLASSES :]


def _pixels(x: Tensor) -> tuple[Tensor, ...]:
    return (x.reshape(-1, CLASSES, 3),)


def _steps(x: Tensor) -> tuple[Tensor, ...]:
    return (F.log_softmax(x.reshape(-1, 3, CLASSES).transpose(0, 1), 2),)


def _log_probabilities(x: Tensor) -> tuple[Tensor, ...]:
    return (F.log_softmax(x[:, :CLASSES], 1),)


def _probabilities(x: Tensor) -> tuple[Tensor, ...]:
    return (torch.sigmoid(x[:, :CLASSES]),)


def _features(x: Tensor) -> tuple[Tensor, ...]:
    return (torch.relu(x),)


def _classes(rows: int) -> tuple[Tensor, ...]:
    return (torch.randint(0, CLASSES, (rows,)),)


def _some_classes(rows: int) -> tuple[Tensor, ...]:
    (labels,) = _classes(rows)
    return (torch.where(torch.arange(rows) % 3 == 1, IGNORED, labels),)


def _pixel_classes(rows: int) -> tuple[Tensor, ...]:
    labels = torch.randint(0, CLASSES, (rows, 3))
    return (torch.where(torch.arange(3) == 1, IGNORED, labels),)


def _numbers(rows: int) -> tuple[Tensor, ...]:
    return (2 * torch.randn(rows, CLASSES),)


def _shares(rows: int) -> tuple[Tensor, ...]:
    return (torch.softmax(torch.randn(rows, CLASSES), 1),)


def _bits(rows: int) -> tuple[Tensor, ...]:
    return (torch.randint(0, 2, (rows, CLASSES)).float(),)


def _signs(rows: int) -> tuple[Tensor, ...]:
    return (2.0 * torch.randint(0, 2, (rows, CLASSES)) - 1,)


def _row_signs(rows: int) -> tuple[Tensor, ...]:
    return (2.0 * torch.randint(0, 2, (rows,)) - 1,)


def _counts(rows: int) -> tuple[Tensor, ...]:
    return (torch.randint(0, 5, (rows, CLASSES)).float(),)


def _spread(rows: int) -> tuple[Tensor, ...]:
    return *_numbers(rows), 0.1 + torch.rand(rows, CLASSES)


def _sets(rows: int) -> tuple[Tensor, ...]:
    labels = torch.argsort(torch.rand(rows, CLASSES), 1)
    return (torch.where(torch.arange(CLASSES) < 3, labels, -1),)


def _words(rows: int) -> tuple[Tensor, ...]:
    lengths = torch.full((rows,), 3), torch.randint(1, 3, (rows,))
    return torch.randint(1, CLASSES, (rows, 2)), *lengths


def _nothing(rows: int) -> tuple[Tensor, ...]:
    return ()


_WEIGHTS = torch.linspace(0.5, 2.0, CLASSES)
_Labels = Callable[[int], tuple[Tensor, ...]]
# By class: a name, options, what the model gives it, labels.
TORCH_LOSSES: Mapping[str, list[tuple[str, dict[str, object], Callable[..., object], _Labels]]] = {
    "CrossEntropyLoss": [
        ("mean", {}, _scores, _classes),
        ("sum", {"reduction": "sum"}, _scores, _classes),
        ("none", {"reduction": "none"}, _scores, _classes),
        ("ignored", {}, _scores, _some_classes),
        ("ignored 2", {"ignore_index": 2}, _scores, _classes),
        ("smoothed", {"label_smoothing": 0.1}, _scores, _some_classes),
        ("weights", {"weight": _WEIGHTS, "label_smoothing": 0.1}, _scores, _some_classes),
        ("shares", {}, _scores, _shares),
        ("pixels", {"weight": _WEIGHTS}, _pixels, _pixel_classes),
    ],
    "NLLLoss": [
        ("mean", {"weight": _WEIGHTS}, _log_probabilities, _some_classes),
        ("sum", {"reduction": "sum"}, _log_probabilities, _some_classes),
    ],
    "LinearCrossEntropyLoss": [
        ("", {"in_features": 3 * CLASSES, "num_classes": CLASSES}, _features, _some_classes),
    ],
    "BCELoss": [("", {"weight": _WEIGHTS}, _probabilities, _bits)],
    "BCEWithLogitsLoss": [
        ("", {"pos_weight": _WEIGHTS}, _scores, _bits),
        ("sum", {"reduction": "sum"}, _scores, _shares),
    ],
    "MSELoss": [
        ("", {}, _scores, _numbers),
        ("sum", {"reduction": "sum"}, _scores, _numbers),
        ("none", {"reduction": "none"}, _scores, _numbers),
    ],
    "L1Loss": [("", {}, _scores, _numbers), ("sum", {"reduction": "sum"}, _scores, _numbers)],
    "SmoothL1Loss": [("", {"beta": 0.7}, _scores, _numbers)],
    "HuberLoss": [("", {"delta": 0.7}, _scores, _numbers)],
    "KLDivLoss": [
        (key, {"reduction": key}, _log_probabilities, _shares)
        for key in ("batchmean", "mean", "sum")
    ],
    "PoissonNLLLoss": [("", {"full": True}, _scores, _counts)],
    "HingeEmbeddingLoss": [("", {}, _scores, _signs)],
    "SoftMarginLoss": [("", {}, _scores, _signs)],
    "CosineEmbeddingLoss": [("", {"margin": 0.1}, _two, _row_signs)],
    "MarginRankingLoss": [("", {"margin": 0.1}, _two, _signs)],
    "MultiMarginLoss": [("", {"weight": _WEIGHTS}, _scores, _classes)],
    "MultiLabelMarginLoss": [("", {}, _scores, _sets)],
    "MultiLabelSoftMarginLoss": [("", {"weight": _WEIGHTS}, _scores, _bits)],
    "TripletMarginLoss": [("", {"swap": True}, _three, _nothing)],
    "TripletMarginWithDistanceLoss": [("", {}, _three, _nothing)],
}
# Their code looks at values, or torch.export does not take it.
NOT_CAPTURED: Mapping[str, tuple[dict[str, object], Callable[..., object], _Labels]] = {
    "GaussianNLLLoss": ({}, _scores, _spread),
    "CTCLoss": ({}, _steps, _words),
}


def torch_cases() -> Iterator[LossCase]:
    """Yield the cases of `TORCH_LOSSES`."""
    for kind, entries in TORCH_LOSSES.items():
        for word, options, head, labels in entries if hasattr(nn, kind) else ():
            yield torch_case(f"{kind} {word}".strip(), kind, options, head, labels)


def torch_case(
    name: str, kind: str, options: Table, head: Callable[..., Any], labels: _Labels
) -> LossCase:
    """Return a model with a loss of torch, the parameters of which are always the same."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        loss: nn.Module = getattr(nn, kind)(**options)

    def batch(rows: int) -> Batch:
        known = {f"labels_{index}": item for index, item in enumerate(labels(rows))}
        return {"x": torch.randn(rows, FEATURES), **known}

    def again(results: Table, given: Batch) -> Tensor:
        known = [value for key, value in given.items() if key != "x"]
        found: Tensor = loss(*results["scores"], *known)
        return found

    return LossCase(name, lambda: _Trained(loss, head).eval(), batch, again)
