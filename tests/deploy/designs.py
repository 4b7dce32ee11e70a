"""Designs behind bus ports, with vectors of their integer reference."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import mase_hw
from mase_hw.deploy.bus import BusOptions
from mase_hw.deploy.deployment import Deployment
from mase_hw.emit.design import DesignSummary
from mase_hw.emit.project import Project, load_reference

Factory = Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]


def trained(model: nn.Module) -> nn.Module:
    """Give weights scales over three decades, as training leaves them."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            scales = torch.rand(parameter.shape, generator=generator) * 3 - 2.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 10**scales)
    return model.eval()


def perceptron() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return trained(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))), (
        torch.randn(16, 6),
    )


def convolution() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return trained(nn.Sequential(*layers, nn.Linear(12, 4))), (torch.randn(16, 2, 4, 4),)


def wide() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return trained(nn.Linear(20, 36)), (torch.randn(16, 20),)


def transformer() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return trained(layer), (torch.randn(4, 6, 8),)


class Pair(nn.Module):
    """Two inputs, two results of different sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 4), nn.Linear(3, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mixed = torch.relu(self.first(x)) + self.second(y)
        return mixed, mixed.sum(dim=-1, keepdim=True)


def pair() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return trained(Pair()), (torch.randn(16, 6), torch.randn(16, 3))


MXINT = {
    "by": "type",
    "default": {"config": {"name": "mxint", "data_in_width": 8, "data_in_block_size": 2}},
}
FACTORIES: dict[str, Factory] = {
    "perceptron": perceptron,
    "convolution": convolution,
    "mxint": perceptron,
    "wide": wide,
    "transformer": transformer,
    "pair": pair,
}


def emit(
    name: str, folder: Path, bus: BusOptions | None, *, around: Any = None, **options: Any
) -> Project:
    """Write a design of `FACTORIES` behind bus ports."""
    model, inputs = FACTORIES[name]()
    deployment = around or Deployment(bus)
    if name == "mxint":
        options = {"config": MXINT, "parallelism": 2, **options}
    return mase_hw.emit_verilog(model, inputs, output=folder, deployment=deployment, **options)


def design_hash(project: Path) -> int:
    return int(json.loads((project / "design.json").read_text())["bus"]["hash"], 16)


def vectors(project: Path, count: int, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return random codes of every input, and what the integer reference makes of them."""
    reference = load_reference(project)
    generator = torch.Generator().manual_seed(seed)
    summary = DesignSummary.load(project)
    inputs = [
        item.spec.quantized.random_codes((count, *item.spec.shape), generator)
        for item in summary.inputs
    ]
    results = reference(inputs)
    expected = [results[item.node] for item in summary.outputs]
    return [_items(item) for item in inputs], [_items(item) for item in expected]


def _items(codes: torch.Tensor) -> np.ndarray:
    """Return `[inferences, *shape]` without a batch dimension of 1."""
    return (codes[:, 0] if codes.dim() > 2 and codes.shape[1] == 1 else codes).numpy()
