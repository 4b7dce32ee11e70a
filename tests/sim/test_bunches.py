"""The interval of designs that share a port is found among bunches, and another one is noticed."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.sim.simulate import LEAST_INFERENCES, between_bunches, keep_interval
from tests.engines import exact

LATENCY, INTERVAL = 300, 100
LATES = {"none": [0], "pairs": [0, -32], "fours": [32, 0, 0, 32], "fives": [13, -40, 0, 5, 0]}


def ends(late, interval, count):
    """Return the ends of inferences that wait more at first, and less at last."""
    turns = np.resize(late, count)
    turns[:3], turns[-2:] = 60, (-30, -90)
    return LATENCY + interval * np.arange(count) + turns


@pytest.mark.parametrize("name", LATES)
@pytest.mark.parametrize("count", [LEAST_INFERENCES, 40, 101])
def test_an_interval_is_that_between_bunches(name, count):
    ended = ends(LATES[name], INTERVAL, count)
    assert between_bunches(ended, LATENCY) == pytest.approx(INTERVAL, abs=3)
    assert keep_interval(ended, LATENCY, INTERVAL)


@pytest.mark.parametrize("name", LATES)
@pytest.mark.parametrize("interval", [INTERVAL - 1, INTERVAL + 1])
def test_another_interval_is_not_as_predicted(name, interval):
    assert not keep_interval(ends(LATES[name], interval, 60), LATENCY, INTERVAL)


def test_few_inferences_are_not_measured():
    assert between_bunches(ends([0], INTERVAL, LEAST_INFERENCES - 1), LATENCY) is None


def test_three_layers_that_share_a_port_are_as_predicted(tmp_path):
    torch.manual_seed(7)
    sizes = (12, 24, 24, 6)
    layers = [nn.Linear(*pair) for pair in pairwise(sizes)]
    memory = {"default": "external", "latency_cycles": 6, "bytes_per_cycle": 4}
    project = mase_hw.emit_verilog(
        nn.Sequential(*layers),
        torch.randn(8, 12),
        output=tmp_path / "p",
        parallelism=2,
        memory=memory,
    )
    for samples in (8, 40):
        report = exact(project, samples=samples)
        assert report.as_predicted
    assert report.interval_cycles == report.predicted_interval_cycles
