"""Graphs whose streams fork and join: bit-exact, at the bound, with queues of the right depth."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.design import DesignSummary


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(12, 12)

    def forward(self, x):
        return self.a(x) + x


class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(12, 8)
        self.b = nn.Linear(12, 8)

    def forward(self, x):
        return self.a(x) + self.b(x)


class DiamondInADiamond(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.c = nn.Linear(8, 8)

    def forward(self, x):
        y = self.a(x)
        z = torch.relu(self.b(y) + y)
        return self.c(z) * z + x


class Gate(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


class TwoInputsTwoOutputs(nn.Module):
    """The first output also goes on inside."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 10)

    def forward(self, x, y):
        h = self.a(x)
        return h, torch.relu(h) + y


class SameModuleTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x):
        return self.a(torch.relu(self.a(x)))


class RankThree(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        return self.b(self.a(x)) + x


class RankFour(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 6, bias=False)

    def forward(self, x):
        return (self.a(x) - x).transpose(1, 2)


class Tenth(nn.Module):
    """Ten results in tiles of four."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(7, 10)

    def forward(self, x):
        return x, self.a(x)


CASES = [
    (Residual, [(4, 12)]),
    (TwoBranches, [(4, 12)]),
    (DiamondInADiamond, [(4, 8)]),
    (Gate, [(4, 8)]),
    (TwoInputsTwoOutputs, [(4, 6), (4, 10)]),
    (SameModuleTwice, [(4, 8)]),
    (RankThree, [(3, 5, 8)]),
    (RankFour, [(3, 2, 4, 6)]),
    (Tenth, [(4, 7)]),
]
DEFAULT = {(DiamondInADiamond, 1), (RankThree, 4), (TwoInputsTwoOutputs, 4)}


def _parameters():
    for model, shapes in CASES:
        for parallelism in (1, 4):
            marks = [] if (model, parallelism) in DEFAULT else [pytest.mark.full]
            name = f"{model.__name__}-{parallelism}"
            yield pytest.param(model, shapes, parallelism, marks=marks, id=name)


@pytest.mark.first(2)
@pytest.mark.parametrize(("model", "shapes", "parallelism"), list(_parameters()))
def test_forks_and_joins(model, shapes, parallelism, tmp_path):
    torch.manual_seed(0)
    inputs = tuple(torch.randn(shape) for shape in shapes)
    project = mase_hw.emit_verilog(
        model().eval(), inputs, output=tmp_path / "project", parallelism=parallelism
    )
    stalled = mase_hw.simulate(project, samples=100, stall=0.4, seed=3)
    assert stalled.bit_exact, stalled.first_mismatch or stalled.violations
    report = mase_hw.simulate(project, samples=60, queues=True)
    assert report.bit_exact
    assert report.interval_cycles == report.predicted_interval_cycles
    assert report.latency_cycles == report.predicted_latency_cycles
    assert len(report.queues) == len(DesignSummary.load(project.folder).queues)
    for mark in report.queues:
        assert mark.high_water <= mark.depth <= max(2 * mark.high_water, 2), mark


ADDERS = [
    {"name": "integer", "data_in_width": 8, "data_in_frac_width": 0},
    pytest.param({"name": "minifloat_ieee"}, marks=pytest.mark.full),
    pytest.param({"name": "mxint"}, marks=pytest.mark.full),
]


@pytest.mark.full
@pytest.mark.parametrize("entry", ADDERS)
def test_an_adder_adds_signed_numbers(entry, tmp_path):
    class Adder(nn.Module):
        def forward(self, x, y):
            return x + y

    config = {"by": "type", "add": {"config": entry}}
    five, minus_three = torch.full((2, 4), 5.0), torch.full((2, 4), -3.0)
    project = mase_hw.emit_verilog(
        Adder(), (five, minus_three), output=tmp_path / "adder", config=config, parallelism=2
    )
    report = mase_hw.simulate(project, [five, minus_three])
    assert report.bit_exact
    assert report.values["data_out_0"].unique().tolist() == [2.0]
