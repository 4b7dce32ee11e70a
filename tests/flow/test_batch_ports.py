"""Ports whose inferences a caller counts in another dimension than the first of several."""

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import mase_hw
from mase_hw.errors import SimulationError
from tests.engines import exact

SIZE, STEPS = 3, 4


class OneNumber(nn.Module):
    """A number an example, as a step of diffusion, in and out."""

    def __init__(self):
        super().__init__()
        self.layer, self.step = nn.Linear(SIZE, 2), nn.Linear(1, 2)

    def forward(self, x, t):
        return (self.layer(x) + self.step(t[:, None])).sum(-1)


def layer(kind, **options):
    torch.manual_seed(0)
    return kind(SIZE, 2, **options).eval()


def states(count, layers):
    return tuple(torch.randn(layers, 6, 2) for _ in range(count))


TIME = torch.randn(STEPS, 6, SIZE, generator=torch.Generator().manual_seed(0))
# Model, inputs, and whether layers run on the hardware of one.
CASES = {
    "one number": (OneNumber, (torch.randn(6, SIZE), torch.rand(6)), False),
    "LSTM": (lambda: layer(nn.LSTM), (TIME,), False),
    "GRU of two layers": (lambda: layer(nn.GRU, num_layers=2), (TIME,), True),
    "two directions": (lambda: layer(nn.LSTM, bidirectional=True), (TIME,), False),
    "states": (
        lambda: layer(nn.LSTM, num_layers=2, batch_first=True),
        (TIME.transpose(0, 1), states(2, 2)),
        True,
    ),
    "a state, time first": (lambda: layer(nn.GRU), (TIME, *states(1, 1)), True),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("name", CASES)
def test_the_callers_own_inputs_are_simulated(name, tmp_path):
    build, inputs, reuse = CASES[name]
    model = build()
    project = mase_hw.emit_verilog(model, inputs, output=tmp_path / "p", parallelism=2, reuse=reuse)
    report = exact(project, tuple(tree_leaves(inputs)))
    assert report.agreement is not None
    assert all(item.sqnr_db > 15 for item in report.agreement.outputs.values())
    expected = tree_leaves(model(*inputs))
    found = list(report.values.values())
    assert [item.shape for item in found] == [item.shape for item in expected]
    for left, right in zip(found, expected, strict=True):
        assert (left - right).abs().max() < 0.2


def test_another_shape_is_refused_with_the_dimension_of_the_batch(tmp_path):
    project = mase_hw.emit_verilog(layer(nn.GRU), TIME, output=tmp_path / "p")
    with pytest.raises(SimulationError, match=r"expected \(4, N, 3\) for N inferences"):
        mase_hw.simulate(project, TIME[:3])
