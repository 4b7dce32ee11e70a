"""Whether what is trained is the user's: losses of quantised graphs, and their states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain

import torch
from torch import Tensor, nn

from mase_hw._kinds import Record
from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.errors import ConfigError
from mase_hw.formats import formats
from mase_hw.graph import MaseGraph, trace
from mase_hw.passes.compression.learn_steps import LearnedStepModel
from mase_hw.passes.compression.lora import (
    fuse_lora_weights_transform_pass,
    insert_lora_adapter_transform_pass,
)
from mase_hw.passes.compression.prune import prune_transform_pass
from mase_hw.passes.formats.calibrate import calibrate_analysis_pass
from mase_hw.training import Trainer
from tests.bench.base import Row
from tests.bench.loss_cases import LossCase, torch_cases
from tests.bench.loss_heads import head_cases

BATCHES = (1, 3, 8, 50, 200)
_EIGHT = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
CONFIGS: Mapping[str, Mapping[str, object]] = {
    "empty": {},
    "8 bits": {"default": {"config": _EIGHT}},
    "by type": {
        "by": "type",
        "default": {"config": {"name": "none"}},
        "linear": {"config": {**_EIGHT, "weight_width": 4}},
    },
}


def loss_error(case: LossCase, configs: Iterable[Mapping[str, object]] = CONFIGS.values()) -> float:
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


def _error(results: Mapping[str, Tensor], case: LossCase, batch: Mapping[str, Tensor]) -> float:
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


class _Network(nn.Module):
    """Layers whose inputs have other ranges than their results, two of one stream."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm = nn.Linear(16, 32), nn.LayerNorm(32)
        self.left, self.right = nn.Linear(32, 32), nn.Linear(32, 32)
        self.leave = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.enter(x)))
        found: Tensor = self.leave(x + torch.relu(self.left(x)) - self.right(x))
        return found


def _config(word: str) -> Record:
    entry = {"name": word}
    return {"default": {"config": {"name": "none"}}, "linear": {"config": entry}}


def _captured(seed: int) -> tuple[MaseGraph, Tensor]:
    """Return a network whose weights and inputs have sizes of their own, canonical."""
    torch.manual_seed(seed)
    model, x = _Network(), 4.0 ** (seed % 3) * torch.randn(96, 16)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0 ** torch.randint(-2, 3, (1,)))
    return canonicalize(trace(model, x[:16])), x


def _calibrated(mg: MaseGraph, x: Tensor, word: str) -> tuple[MaseGraph, Mapping[str, object]]:
    arguments = {"config": _config(word), "data": [x], "observer": "mse"}
    config = calibrate_analysis_pass(mg, arguments)[1]["config"]
    return quantize(mg, config), config


def _pruned(mg: MaseGraph, x: Tensor, word: str) -> nn.Module:
    return quantize(prune_transform_pass(mg, {"sparsity": 0.5})[0], _config(word), data=[x])


def _adapted(mg: MaseGraph, x: Tensor, word: str) -> nn.Module:
    adapted = insert_lora_adapter_transform_pass(mg, {"rank": 4})[0]
    Trainer(epochs=1, learning_rate=1e-2).fit(adapted, x, x[:, :3].argmax(1))
    return quantize(fuse_lora_weights_transform_pass(adapted)[0], _config(word), data=[x])


RECIPES: Mapping[str, Callable[[MaseGraph, Tensor, str], nn.Module]] = {
    "training": lambda mg, x, word: quantize(mg, _config(word), data=[x]),
    "calibration": lambda mg, x, word: _calibrated(mg, x, word)[0],
    "pruning": _pruned,
    "adapters": _adapted,
    "learned steps": lambda mg, x, word: LearnedStepModel(*_calibrated(mg, x, word)),
}


def round_trip(recipe: str, word: str) -> bool | None:
    """Return whether a trained state, loaded into the same recipe, gives the same numbers.

    The other graph has other weights, and saw other data.

    Args:
        recipe: a key of `RECIPES`.
        word: the name of a number format.

    Returns:
        None where the recipe is not for the format.
    """
    trained, fresh = (_made(recipe, word, seed) for seed in (0, 1))
    if trained is None or fresh is None:
        return None
    x = torch.randn(200, 16)
    Trainer(epochs=2, batch_size=32, learning_rate=1e-3).fit(trained, x, x[:, :3].argmax(1))
    fresh.load_state_dict(trained.state_dict())
    with torch.no_grad():
        equal = torch.equal(fresh.eval()(x), trained.eval()(x))
    return equal and all(
        torch.equal(value, fresh.state_dict()[key]) for key, value in trained.state_dict().items()
    )


def _made(recipe: str, word: str, seed: int) -> nn.Module | None:
    try:
        return RECIPES[recipe](*_captured(seed), word)
    except ConfigError as error:
        if "no format of the graph has a scale to learn" in str(error):
            return None
        raise


def state_rows(words: Iterable[str] | None = None) -> Iterable[Row]:
    """Yield the figure of states: round trips of every format and recipe."""
    found = [round_trip(recipe, word) for recipe in RECIPES for word in words or formats()]
    tried = [item for item in found if item is not None]
    yield Row(
        "states of trained graphs, loaded into the same recipe on other weights: equal bit for bit",
        f"{sum(tried)} of {len(tried)}",
        "all",
        all(tried) and len(tried) > 0,
    )
