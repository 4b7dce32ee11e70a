"""Streams that are joined, cut, repeated and padded: bit-exact, at the bound, queues that fit."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import mase_hw
from mase_hw.emit.design import DesignSummary


class Function(nn.Module):
    """Calls a function of the inputs and of modules."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *inputs):
        return self.function(*inputs, *self.parts)


class ClassToken(nn.Module):
    """A learned row in front of every inference's rows."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 6))
        self.places = nn.Parameter(torch.randn(1, 5, 6))

    def forward(self, x):
        return torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places


def gate(x, squeeze, excite):
    """A squeeze-and-excitation gate: `[N, C, H, W]` times `[N, C, 1, 1]`."""
    return x * torch.sigmoid(excite(torch.relu(squeeze(x.mean((2, 3), keepdim=True)))))


def dense(x, first, second):
    """Channels that do not divide the lanes, joined twice."""
    y = torch.cat([x, first(x)], 1)
    return torch.cat([y, second(y)], 1)


def rotated(x):
    """The halves of a row, exchanged and turned, as rotary embeddings do."""
    left, right = x.chunk(2, -1)
    return torch.cat([-right, left], -1) + x


CASES = {
    "gate": (Function(gate, nn.Conv2d(6, 3, 1), nn.Conv2d(3, 6, 1)), [(3, 6, 4, 3)]),
    "dense": (
        Function(dense, nn.Conv2d(3, 2, 3, padding=1), nn.Conv2d(5, 6, 1)),
        [(3, 3, 4, 4)],
    ),
    "rotated": (Function(rotated), [(3, 2, 10)]),
    "class token": (ClassToken(), [(3, 4, 6)]),
    "centred": (Function(lambda x: x - x.mean(-1, keepdim=True)), [(3, 5, 7)]),
    "outer": (Function(lambda x, y: x * y), [(3, 5, 1), (3, 1, 6)]),
    "one of each row": (Function(lambda x, y: x + y), [(4, 7), (4, 1)]),
    "rows": (
        Function(lambda x, a: torch.cat([a(x), x], 1) + 1, nn.Linear(8, 8)),
        [(3, 4, 8)],
    ),
    "twice": (Function(lambda x: torch.cat([x, x], 1) * 0.5), [(3, 6)]),
    "unbound": (Function(lambda x: torch.stack(x.unbind(1)[::-1], 2)), [(3, 3, 5)]),
    "repeated": (Function(lambda x: x.repeat(1, 2, 3) + 1), [(3, 2, 5)]),
    "channels": (Function(lambda x: functional.pad(x, (0, 0, 0, 0, 1, 2)) + 1), [(3, 4, 3, 3)]),
    "images": (Function(lambda x: x[:, :1] + x.amax((2, 3), keepdim=True)), [(3, 5, 3, 4)]),
    "rank 1": (Function(lambda x: torch.relu(x * 0.5 + x)), [(11,)]),
    "rank 2": (Function(lambda x, a: a(x) + x, nn.Linear(9, 9)), [(3, 9)]),
    "rank 5": (
        Function(lambda x, a: torch.relu(a(x)) + x[:, :, :1], nn.Linear(5, 5)),
        [(2, 2, 3, 2, 5)],
    ),
    "10 outputs, no bias": (Function(lambda x, a: a(x), nn.Linear(7, 10, bias=False)), [(4, 7)]),
    "one output twice": (Function(lambda x, a: (a(x), a(x) + 1), nn.Linear(6, 6)), [(4, 6)]),
}
DEFAULT = {("gate", 4), ("dense", 4)}


def _parameters():
    for name in CASES:
        for parallelism in (1, 4):
            marks = [] if (name, parallelism) in DEFAULT else [pytest.mark.slow]
            yield pytest.param(name, parallelism, marks=marks, id=f"{name}-{parallelism}")


def check(project):
    stalled = mase_hw.simulate(project, samples=60, stall=0.4, seed=3)
    assert stalled.bit_exact, stalled.first_mismatch or stalled.violations
    report = mase_hw.simulate(project, samples=40, queues=True)
    assert report.bit_exact
    assert report.interval_cycles == report.predicted_interval_cycles
    assert abs(report.latency_cycles - report.predicted_latency_cycles) <= 2
    assert len(report.queues) == len(DesignSummary.load(project.folder).queues)
    for mark in report.queues:
        assert mark.high_water <= mark.depth <= max(2 * mark.high_water, 2), mark


@pytest.mark.parametrize(("name", "parallelism"), list(_parameters()))
def test_joins(name, parallelism, tmp_path):
    model, shapes = CASES[name]
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(torch.randn(shape, generator=generator) for shape in shapes)
    output = tmp_path / "project"
    check(mase_hw.emit_verilog(model.eval(), inputs, output=output, parallelism=parallelism))
