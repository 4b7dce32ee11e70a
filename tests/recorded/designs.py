"""The recorded designs: small ones with weights from a seed, and the registered networks.

Nothing here depends on the instructions of a processor: weights are drawn uniformly, inputs by
numpy, and what a network learnt lies in `weights/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

import mase_hw
from mase_hw.data import dataset
from mase_hw.emit.flow import quantize
from mase_hw.emit.project import Project
from mase_hw.graph import trace
from mase_hw.models import models, perceptron

INFERENCES = 24
EXAMPLES = 64
WEIGHTS = Path(__file__).with_name("weights")

# The budget of multipliers of each registered network with hardware.
NETWORKS: Mapping[str, int] = {
    "digits-mlp": 64, "letter-mlp": 64, "magic-mlp": 64, "mnist-lenet": 128, "mnist-cnn": 128,
    "fashion-resnet8": 128, "har-cnn1d": 128,
}  # fmt: skip


@dataclass(frozen=True)
class Small:
    """A small design.

    Attributes:
        build: returns the module; called with a fixed seed.
        shape: of one input, without the batch.
        entry: the format of everything, 8-bit fixed point without.
        others: entries by type beside it.
        options: of `emit_verilog`.
    """

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    entry: Mapping[str, Any] | None = None
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def spread_linear() -> nn.Linear:
    """Return a layer whose weights are as large as a format without a scale holds."""
    layer = nn.Linear(64, 16, bias=False)
    nn.init.uniform_(layer.weight, -2, 2)
    return layer


def convolution() -> nn.Module:
    return nn.Conv2d(8, 8, 3, padding=1)


class Mixed(nn.Module):
    """A normalisation by itself, a residual, pools, a concatenation, reductions and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4)
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        for part in (self.norm.weight, self.norm.running_var):
            assert part is not None
            nn.init.uniform_(part, 0.5, 1.5)
        for part in (self.norm.bias, self.norm.running_mean):
            assert part is not None
            nn.init.uniform_(part, -0.5, 0.5)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        normalized = self.norm(images)
        residual = torch.relu(self.conv(normalized)) + normalized
        pooled = torch.cat((F.max_pool2d(residual, 2), F.avg_pool2d(residual, 2)), 1)
        gate = F.softplus(pooled.mean((2, 3), keepdim=True))
        gated = pooled * gate.expand(-1, -1, 3, 3)
        return gated, gated.sum(1), gated.amax((2, 3)), gated.argmax(1)


class Branches(nn.Module):
    """Three parallel branches of different delay, joined along the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(6, 4, 1)
        self.three = nn.Sequential(nn.Conv2d(6, 3, 1), nn.ReLU(), nn.Conv2d(3, 4, 3, padding=1))
        self.five = nn.Sequential(nn.Conv2d(6, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 5, padding=2))

    def forward(self, images: Tensor) -> Tensor:
        parts = (self.one(images), self.three(images), self.five(images))
        return torch.relu(torch.cat(parts, 1))


class ResidualBranches(nn.Module):
    """The same three branches between a convolution and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 6, 3, padding=1)
        self.branches = Branches()
        self.last = nn.Conv2d(12, 6, 1)

    def forward(self, images: Tensor) -> Tensor:
        images = torch.relu(self.first(images))
        return torch.relu(images + self.last(self.branches(images)))


BLOCKS = {"data_in_block_size": 8, "weight_block_size": 8}
# One unit of 8 lanes.
DOT = {"parallelism": {"default": 1, "linear": {"data_in_0_dim_0": 8, "data_out_0_dim_0": 1}}}
JET = (16, 64, 32, 32, 5)
EXTERNAL = {"default": "external", "latency_cycles": 20, "bytes_per_cycle": 4}
SIXTEEN = {"name": "fixed", "data_in_width": 16, "data_out_width": 16}

LINEARS: Mapping[str, Mapping[str, Any]] = {
    "mxint8": {"name": "mxint", "data_in_width": 8, "weight_width": 8, **BLOCKS},
    "mxfp8": {"name": "mxfp8", **BLOCKS},
    "fp8_e4m3": {"name": "fp8_e4m3"},
    "scaled_integer8": {"name": "scaled_integer", "data_in_width": 8, "weight_width": 8},
    "ternary": {"name": "ternary", "data_in_scale": 1.0, "weight_scale": 0.25},
    "log": {"name": "log", "data_in_width": 4, "weight_width": 4},
}
CONVOLUTIONS: Mapping[str, Mapping[str, Any]] = {
    "mxint8": {"name": "mxint", "data_in_width": 8, "data_in_block_size": 8},
    "fp8_e4m3": {"name": "fp8_e4m3"},
    "scaled_integer8": {"name": "scaled_integer", "data_in_width": 8, "weight_width": 8},
}
SMALL: Mapping[str, Small] = {
    **{
        f"linear-{name}": Small(spread_linear, (64,), entry,
        options=DOT)
        for name, entry in LINEARS.items()
    },
    **{
        f"conv-{name}": Small(convolution, (8, 6, 6), entry,
        options={"parallelism": 4})
        for name, entry in CONVOLUTIONS.items()
    },
    "jet-p1": Small(lambda: perceptron(*JET), (16,), options={"parallelism": 1}),
    "jet-p4": Small(lambda: perceptron(*JET), (16,), options={"parallelism": 4}),
    "external-mlp": Small(lambda: perceptron(8, 12, 8, 5), (8,), options={"parallelism": 2,
        "memory": EXTERNAL}),
    "mixed": Small(Mixed, (4, 6, 6), others={"softplus": SIXTEEN}, options={"parallelism": 2}),
    "branches": Small(Branches, (6, 8, 8), options={"parallelism": 2}),
    "residual-branches": Small(ResidualBranches, (2, 8, 8), options={"parallelism": 2}),
}  # fmt: skip


def names() -> list[str]:
    """Return the names of everything that is recorded, the small designs first."""
    return [*SMALL, *NETWORKS]


def emit(name: str, folder: Path) -> tuple[Project, Tensor]:
    """Write the project of a recorded design; return it with the reals of the simulation."""
    return _network(name, folder) if name in NETWORKS else _small(SMALL[name], name, folder)


def _small(design: Small, name: str, folder: Path) -> tuple[Project, Tensor]:
    generator = np.random.default_rng(0)
    examples = _normal(generator, EXAMPLES, design.shape)
    inputs = _normal(generator, INFERENCES, design.shape)
    # From rounded to zero up to saturated.
    inputs *= 2.0 ** torch.from_numpy(generator.integers(-6, 4, inputs.shape)).float()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = design.build().eval()
    mg = trace(model, examples, name=_identifier(name))
    mg = quantize(mg, _config(design))
    return mase_hw.emit_verilog(mg, output=folder, **design.options), inputs


def _config(design: Small) -> Mapping[str, Any]:
    eight = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
    others = {name: {"config": dict(entry)} for name, entry in design.others.items()}
    return {"by": "type", "default": {"config": dict(design.entry or eight)}, **others}


def _normal(generator: np.random.Generator, count: int, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(generator.standard_normal((count, *shape), dtype=np.float32))


def _network(name: str, folder: Path) -> tuple[Project, Tensor]:
    """Emit a network as `python -m tests.bench branches` does, from what it learnt once."""
    model = models()[name]
    split = dataset(model.data).load().hold_out()
    module = model.build()
    module.load_state_dict(load_file(_weights(name)))
    graph = trace(module.eval(), split.train_inputs[:EXAMPLES], name=_identifier(name))
    project = mase_hw.emit_verilog(
        graph, output=folder, config=model.config, parallelism="auto", multipliers=NETWORKS[name]
    )
    return project, split.test_inputs[:INFERENCES]


def keep_weights(name: str) -> None:
    """Store what a network learns, unless that was stored before."""
    if name in NETWORKS and not _weights(name).is_file():
        state = models()[name].load().module.state_dict()
        WEIGHTS.mkdir(exist_ok=True)
        save_file({key: value.contiguous() for key, value in state.items()}, _weights(name))


def _weights(name: str) -> Path:
    return WEIGHTS / f"{name}.safetensors"


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)
