"""Layers that repeat share their code in a simulation: it grows with distinct modules."""

import json

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.design import DesignSummary
from mase_hw.sim.build import build_model
from tests.engines import exact

CONFIG = {
    "by": "type",
    "default": {"config": {"name": "fixed", "data_in_width": 8, "data_in_frac_width": 4,
        "weight_width": 6, "weight_frac_width": 4, "bias_width": 8, "bias_frac_width": 4}},
}  # fmt: skip


class Blocks(nn.Module):
    """Residual perceptrons with weights of their own."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)) for _ in range(count)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


def _emit(count, folder):
    torch.manual_seed(0)
    return mase_hw.emit_verilog(
        Blocks(count).eval(), torch.randn(8, 6), output=folder, config=CONFIG, parallelism=2
    )


@pytest.fixture(scope="module")
def six(tmp_path_factory):
    return _emit(6, tmp_path_factory.mktemp("sharing") / "six")


def _code_bytes(folder, summary):
    model = build_model(folder, summary)
    names = (model.folder / "fast.txt").read_text().split()
    return sum((model.folder / name).stat().st_size for name in names)


def test_shared_code_is_bit_exact_and_probed(six):
    summary = DesignSummary.load(six.folder)
    assert "linear_0" in {item.module for item in summary.repeated}
    report = exact(six, samples=40, stall=0.3, probes=["blocks_3_0", "blocks_5_2"])
    assert report.elements > 40 * 6


def test_code_grows_with_distinct_modules(six, tmp_path):
    one = _emit(1, tmp_path / "one")
    shared = DesignSummary.load(six.folder)
    assert not DesignSummary.load(one.folder).repeated
    alone = _code_bytes(one.folder, DesignSummary.load(one.folder))
    together = _code_bytes(six.folder, shared)
    assert together < 3 * alone, (together, alone)


def _wide(lanes, folder):
    torch.manual_seed(0)
    layer = nn.Linear(64, 32).eval()
    return mase_hw.emit_verilog(layer, torch.randn(8, 64), output=folder, parallelism=lanes)


@pytest.mark.full
def test_many_lanes_share_the_code_of_a_dot_product(tmp_path):
    few, more, most = (_wide(lanes, tmp_path / str(lanes)) for lanes in (8, 16, 32))
    assert not DesignSummary.load(few.folder).repeated
    sizes = []
    for project in (more, most):
        summary = DesignSummary.load(project.folder)
        (dot,) = summary.repeated
        assert (dot.module, set(dot.ports)) == ("mase_dot_product", {"data", "weight", "sum"})
        sizes.append(_code_bytes(project.folder, summary))
    # Four times the multipliers.
    assert sizes[1] < 2.5 * sizes[0], sizes
    exact(more, samples=20, stall=0.3)


def test_equal_tables_are_one_memory(six):
    memories = json.loads((six.folder / "design.json").read_text())["memories"]
    tables = [item["file"] for item in memories if "source" not in item["file"]]
    assert len(tables) == 1
    assert (six.folder / "top.sv").read_text().count(tables[0].removeprefix("mem")) == 6
