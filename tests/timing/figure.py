"""The figure of mase_hw/timing/README.md: `python -m tests.timing.figure` in the root draws it."""

from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import nn

from mase_hw._drawing import save_figure
from mase_hw.emit.flow import quantize, to_hardware
from mase_hw.geometry.beats import Cycles
from mase_hw.graph import MaseGraph, trace
from mase_hw.graph.physical import physical
from mase_hw.timing.depths import Schedules
from mase_hw.timing.forks import rejoining

FILE = Path("mase_hw/timing/figures/depth.svg")


class Residual(nn.Module):
    """Two branches from one fork: two convolutions, and a wire."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 2, 3, padding=1)
        self.second = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x))) + x


def residual() -> MaseGraph:
    torch.manual_seed(0)
    return to_hardware(quantize(trace(Residual(), torch.randn(8, 2, 8, 8))), parallelism=2)


def curves(mg: MaseGraph) -> dict[str, Cycles]:
    """Return when the beats of an inference are consumed, by the node that consumes them."""
    schedule, _ = Schedules(physical(mg), rejoining(mg)).settle()
    consumed = {node.name: times[:64] for (node, _), times in schedule.consumed.items()}
    return {name: consumed[name] for name in ("x_fifo", "second", "add")}


def draw(axes: Axes) -> None:
    """Draw beats over cycles."""
    found = curves(residual())
    labels = (
        "consumed by `first`: they leave the fork",
        "consumed by `second`",
        "consumed by `add`",
    )
    for times, label in zip(found.values(), labels, strict=True):
        axes.step(times, np.arange(1, times.size + 1), where="post", label=label)
    come, gone = found["x_fifo"], found["add"]
    occupancy = np.searchsorted(come, gone, side="right") - np.arange(gone.size)
    most = int(occupancy.argmax())
    cycle = int(gone[most])
    axes.vlines(cycle, most, most + occupancy[most], colors="black")
    axes.annotate(
        f"{occupancy[most]} beats: the depth",
        (cycle, most + occupancy[most] / 2),
        (cycle + 230, most + 8),
        arrowprops={"arrowstyle": "->"},
    )
    axes.set_xlabel("cycle")
    axes.set_ylabel("beats")
    axes.legend()


def main() -> None:
    """Write the figure."""
    FILE.parent.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        _, made = save_figure(Path(folder) / FILE.stem, draw)
        copy(made, FILE)


if __name__ == "__main__":
    main()
