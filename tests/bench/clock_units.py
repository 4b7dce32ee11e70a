"""The designs whose clock rate is measured: one unit each, and chains of one.

A unit has 64 elements, or 64 inputs and 16 results, and 8 lanes; a convolution has 2 x 2 of them,
batch normalisation 4. What is added or joined has one format, and the result has it too. A chain
repeats a unit, to see what depth does to the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mase_hw._kinds import Record, Table

if TYPE_CHECKING:
    from pathlib import Path

    from mase_hw.emit.project import Project
    from mase_hw.graph.mase_graph import MaseGraph

TARGET, DEVICE, SPEED = "ecp5", "LFE5U-85F", "6"
SEEDS = 3
STALL, SAMPLES = 0.3, 20
FAST_MHZ, OTHER_MHZ = 180.0, 150.0
VECTOR, IMAGE = (64,), (8, 8, 8)
EXAMPLES = 64
SEED = 0


def fixed(width: int, fraction: int | None = None, out: int | None = None) -> Record:
    """Return the entry of a fixed-point format; the result's has its half behind the point."""
    entry: Record = {"name": "fixed", "data_in_width": width, "weight_width": width}
    if fraction is not None:
        entry["data_in_frac_width"] = fraction
    return entry | ({"data_out_width": out, "data_out_frac_width": out // 2} if out else {})


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the function's result."""
        return self.function(*inputs)


@dataclass(frozen=True)
class Unit:
    """A design to measure.

    Attributes:
        build: returns the module; called with a fixed seed.
        shapes: of the inputs, without the batch.
        bar_mhz: the clock it should reach; None without a bar.
        entry: number format of everything.
        options: of `emit_verilog`.
    """

    build: Callable[[], nn.Module]
    shapes: Sequence[tuple[int, ...]] = (VECTOR,)
    bar_mhz: float | None = OTHER_MHZ
    entry: Table = field(default_factory=partial(fixed, 8))
    options: Table = field(default_factory=lambda: {"parallelism": 8})

    def emit(self, folder: Path) -> Project:
        """Write the project."""
        from mase_hw.api import emit_verilog

        module, inputs = self._module()
        return emit_verilog(
            module, inputs, output=folder, config=self._config, name=folder.name, **self.options
        )

    def graph(self) -> MaseGraph:
        """Return the graph that is emitted."""
        from mase_hw.emit.flow import quantize, to_hardware
        from mase_hw.graph import trace

        module, inputs = self._module()
        return to_hardware(
            quantize(trace(module, inputs, name="unit"), self._config), **self.options
        )

    @property
    def _config(self) -> Record:
        return {"by": "type", "default": {"config": dict(self.entry)}}

    def _module(self) -> tuple[nn.Module, tuple[Tensor, ...]]:
        with torch.random.fork_rng():
            torch.manual_seed(SEED)
            module = self.build().eval()
            return module, tuple(torch.randn(EXAMPLES, *shape) for shape in self.shapes)


def linear() -> nn.Module:
    """Return a layer of 64 inputs and 16 results."""
    return nn.Linear(64, 16)


def unbiased() -> nn.Module:
    """Return the layer without bias, with weights of a size that every format holds."""
    layer = nn.Linear(64, 16, bias=False)
    nn.init.uniform_(layer.weight, -2, 2)
    return layer


def normalization() -> nn.Module:
    """Return a batch normalisation that changes its input."""
    norm = nn.BatchNorm2d(4)
    for part in (norm.weight, norm.running_var):
        assert part is not None
        nn.init.uniform_(part, 0.5, 1.5)
    for part in (norm.bias, norm.running_mean):
        assert part is not None
        nn.init.uniform_(part, -0.5, 0.5)
    return norm


def clamps(count: int) -> nn.Module:
    """Return a chain of clamps, each to a smaller range."""
    return nn.Sequential(*(nn.Hardtanh(-2.0 + i / 16, 2.0 - i / 16) for i in range(count)))


def residual_blocks(count: int) -> nn.Module:
    """Return a chain of residual blocks of two channels."""
    from mase_hw.models import ResidualBlock

    return nn.Sequential(*(ResidualBlock(2, 2) for _ in range(count)))


DOT = {"parallelism": {"default": 1, "linear": {"data_in_0_dim_0": 8, "data_out_0_dim_0": 1}}}
BLOCKS = {"data_in_block_size": 8, "weight_block_size": 8}
MXINT8 = {"name": "mxint", "data_in_width": 8, "weight_width": 8, **BLOCKS}
PAIR = (VECTOR, VECTOR)
ALIKE = fixed(8, 4, out=8)
TWO = {"parallelism": 2}

UNITS: Mapping[str, Unit] = {
    "linear8x1": Unit(linear, bar_mhz=FAST_MHZ, options=DOT),
    "linear4x4": Unit(linear, bar_mhz=FAST_MHZ, options={"parallelism": 4}),
    "conv3x3": Unit(lambda: nn.Conv2d(4, 4, 3, padding=1), ((4, 8, 8),), FAST_MHZ, options=TWO),
    "mul": Unit(lambda: Function(torch.mul), PAIR, FAST_MHZ),
    "batch_norm": Unit(normalization, ((4, 8, 8),), FAST_MHZ, options={"parallelism": 4}),
    "add": Unit(lambda: Function(torch.add), PAIR, FAST_MHZ, ALIKE),
    "cast": Unit(nn.ReLU, bar_mhz=FAST_MHZ, entry=fixed(12, 8, out=8)),
    "relu": Unit(nn.ReLU, bar_mhz=FAST_MHZ),
    "concat": Unit(lambda: Function(lambda a, b: torch.cat((a, b), 1)), PAIR, FAST_MHZ, ALIKE),
    "maxpool": Unit(lambda: nn.MaxPool2d(2), (IMAGE,)),
    "avgpool": Unit(lambda: nn.AvgPool2d(2), (IMAGE,)),
    "silu": Unit(nn.SiLU),
    "sigmoid12": Unit(nn.Sigmoid, entry=fixed(12)),
    "softplus16": Unit(nn.Softplus, entry=fixed(16)),
    "mxint8": Unit(unbiased, entry=MXINT8, options=DOT),
    "fp8": Unit(unbiased, entry={"name": "fp8_e4m3"}, options=DOT),
    "reorder": Unit(lambda: Function(lambda x: x + x.transpose(1, 2)), ((8, 8),)),
    "argmax": Unit(lambda: Function(lambda x: x.argmax(1))),
    "linear_external": Unit(linear, options={**DOT, "memory": "external"}),
}

# Chains by unit, and the lengths of which the last is compared with the first.
CHAINS: Mapping[str, Mapping[int, Unit]] = {
    "clamps": {count: Unit(partial(clamps, count), bar_mhz=None) for count in (1, 4, 12)},
    "residual": {
        count: Unit(partial(residual_blocks, count), ((2, 8, 8),), None, options=TWO)
        for count in (1, 2)
    },
}


def checked(project: Project) -> Project:
    """Return the project after a simulation under stalls.

    Raises:
        MaseError: when a bit is wrong.
    """
    from mase_hw.errors import MaseError
    from mase_hw.sim.simulate import simulate

    report = simulate(project.folder, samples=SAMPLES, stall=STALL, seed=1)
    if not report.bit_exact:
        raise MaseError(f"no figure of a design that is not bit-exact: {report.first_mismatch}")
    return project
