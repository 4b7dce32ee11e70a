"""A queue that is too short stops the design: reported soon, with the queue and its two ends."""

import re

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.design import DesignSummary
from mase_hw.errors import SimulationError


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(12, 12)

    def forward(self, x):
        return self.a(x) + x


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory):
    """A project whose queue is too short in the hardware alone."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("stall") / "residual"
    project = mase_hw.emit_verilog(Residual().eval(), torch.randn(4, 12), output=folder)
    top = folder / "top.sv"
    text, count = re.subn(r"(DEPTH\()\d+(\)\) x_fifo_inst)", r"\g<1>3\2", top.read_text())
    assert count == 1
    top.write_text(text)
    return project


@pytest.mark.parametrize(
    ("engine", "stall"), [("native", 0.3), pytest.param("cocotb", 0.0, marks=pytest.mark.full)]
)
def test_a_stall_names_the_queue_and_its_ends(shrunk, engine, stall):
    with pytest.raises(SimulationError) as error:
        mase_hw.simulate(shrunk, samples=20, engine=engine, stall=stall)
    message = str(error.value)
    summary = DesignSummary.load(shrunk.folder)
    states = [line.strip() for line in message.splitlines() if " queue " in line]
    assert states == [
        f"queue x_fifo is full (3 of {summary.queues[0].depth} beats): "
        "from x (x_fork_0 valid 1, ready 0) "
        "to add (x_fifo_data_out_0 valid 1, ready 0)"
    ]
    found = re.search(r"no beat moved for \d+ cycles before cycle (\d+)", message)
    assert int(found[1]) <= 100 * summary.interval_cycles / (1 - stall)
