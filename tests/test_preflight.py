"""`preflight` names causes, each with a fix, and never ends in anything but a list."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import quantize
from mase_hw.emit.preflight import preflight
from mase_hw.graph import trace
from mase_hw.ops._base import Apply


def reasons(model, *inputs, config=None):
    return [problem.reason for problem in preflight(quantize(trace(model, inputs), config))]


def test_batch_statistics_are_refused_with_the_layers_own_switch():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False))
    (reason,) = reasons(model, torch.randn(3, 4))
    assert "track_running_stats=True" in reason


def test_statistics_that_the_model_computes_are_refused():
    def normalized(x):
        return nn.functional.batch_norm(x, x.flatten()[:4] * 1, torch.ones(4))

    (reason,) = [item for item in reasons(Apply(normalized), torch.randn(3, 4)) if "mean" in item]
    assert "it must be constant" in reason


SCALARS = {
    "prelu": nn.PReLU(),
    "relu": nn.ReLU(),
    "scaled": Apply(lambda x: x * 0.5 + x),
}


@pytest.mark.parametrize("name", SCALARS)
def test_a_scalar_is_emitted(name, tmp_path):
    project = mase_hw.emit_verilog(SCALARS[name], torch.tensor(-0.75), output=tmp_path / "project")
    assert project.design.inputs[0].spec.shape == ()


REDUCTIONS = {
    "sum": lambda x: x.sum(-1),
    "argmax": lambda x: x.argmax(-1),
    "max": lambda x: x.max(0).values,
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_a_scalar_are_refused(name):
    assert reasons(Apply(REDUCTIONS[name]), torch.tensor(-0.75))
