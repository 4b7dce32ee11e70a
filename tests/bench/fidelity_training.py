"""Whether what is trained is the user's: losses of quantised graphs, and their states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from mase_hw.emit.flow import quantize
from mase_hw.graph import trace
from tests.bench.base import Row
from tests.bench.loss_cases import LossCase, torch_cases
from tests.bench.loss_heads import head_cases

BATCHES = (1, 3, 8, 50, 200)
_EIGHT = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "empty": {},
    "8 bits": {"default": {"config": _EIGHT}},
    "by type": {
        "by": "type",
        "default": {"config": {"name": "none"}},
        "linear": {"config": {**_EIGHT, "weight_width": 4}},
    },
}


def loss_error(case: LossCase, configs: Iterable[Mapping[str, Any]] = CONFIGS.values()) -> float:
    """Return how far quantised graphs' losses are from those of their results, relatively.

    Batches are others than the one of three rows that is captured and shows ranges.
    """
    torch.manual_seed(0)
    graph = trace(case.build(), case.batch(3))
    return max(
        _error(quantized(**batch), case, batch)
        for quantized in (quantize(graph, config) for config in configs)
        for batch in map(case.batch, BATCHES)
    )


def _error(results: Mapping[str, Any], case: LossCase, batch: Mapping[str, Tensor]) -> float:
    with torch.no_grad():
        found, wanted = results["loss"].double(), case.loss(results, dict(batch)).double()
    # Where a loss is zero, as that of rows by themselves may be, it has to be zero.
    return float(((found - wanted).abs() / wanted.abs().clamp(min=1e-12)).max())


def loss_rows(cases: Iterable[LossCase] | None = None) -> Iterable[Row]:
    """Yield the figure of losses: how many cases, and the worst ratio to that of their results."""
    errors = [loss_error(case) for case in cases or chain(torch_cases(), head_cases())]
    yield Row(
        f"losses in {len(CONFIGS)} configurations, against those of their own results: cases, "
        "largest relative difference",
        f"{len(errors)}, {max(errors):.1e}",
        ">= 40, <= 1e-5",
        len(errors) >= 40 and max(errors) <= 1e-5,
    )
