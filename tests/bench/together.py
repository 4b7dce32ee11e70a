"""Many models in one design: it is built once, and its models tell those that are not exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mase_hw._stages import within
from tests.bench.emission import reason_against

if TYPE_CHECKING:
    from torch import Tensor, nn

Sample = tuple["nn.Module", "list[Tensor]"]
# Models in one design.
TOGETHER = 16
BATCH = 2


def reasons_against(samples: Sequence[Sample]) -> Iterator[str]:
    """Yield what stands between each model and an exact simulation; empty for nothing.

    Args:
        samples: modules, each with its positional tensors, their batch first.
    """
    for start in range(0, len(samples), TOGETHER):
        group = samples[start : start + TOGETHER]
        with within(f"{start} of {len(samples)} simulated"):
            yield from _halved(group)


def _halved(group: Sequence[Sample]) -> list[str]:
    """Return a reason for each model; where all together are not exact, of each half."""
    whole = reason_against(*side_by_side(group), checks="simulation")
    if not whole or len(group) == 1:
        return [whole] * len(group)
    half = len(group) // 2
    return _halved(group[:half]) + _halved(group[half:])


def side_by_side(samples: Sequence[Sample]) -> Sample:
    """Return models as one, of all their inputs and results: one design to build."""
    import torch

    counts = [len(inputs) for _, inputs in samples]

    class Together(torch.nn.Module):
        """Models with inputs of their own."""

        def __init__(self) -> None:
            super().__init__()
            self.models = torch.nn.ModuleList([model for model, _ in samples])

        def forward(self, *inputs: Tensor) -> list[object]:
            """Return the results of each."""
            given = iter(inputs)
            return [
                model(*(next(given) for _ in range(count)))
                for model, count in zip(self.models, counts, strict=True)
            ]

    inputs = [item for _, given in samples for item in given]
    return Together().eval(), [torch.cat([item] * BATCH)[:BATCH] for item in inputs]
