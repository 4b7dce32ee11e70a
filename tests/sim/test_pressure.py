"""What a run tries: pauses that back up a slow design, and inputs of one magnitude."""

import shutil

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.design import DesignSummary
from mase_hw.sim.inputs import random_codes
from tests.engines import each, exact


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A result in 64 cycles: single pauses never meet two of them."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("pressure") / "slow"
    model = nn.Linear(16, 4).eval()
    return mase_hw.emit_verilog(model, torch.randn(4, 16), output=folder, parallelism=1)


def changed(project, folder, module, old, new):
    copy = shutil.copytree(project.folder, folder / "copy")
    path = copy / "rtl" / f"{module}.sv"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    return copy


@pytest.mark.full
@each
def test_pauses_are_long_enough_for_a_slow_design(slow, engine, tmp_path):
    """A layer that has room for ever overflows only when nothing leaves for several intervals."""
    broken = changed(
        slow, tmp_path, "mase_round_pipeline", "(take ? may_taken : may_kept);",
        "1'b1;",
    )  # fmt: skip
    samples = 200
    exact(slow, samples=samples, engine=engine, stall=0.5)
    exact(broken, samples=samples, engine=engine)
    assert not mase_hw.simulate(broken, samples=samples, engine=engine, stall=0.5).bit_exact


def test_cycles_that_differ_from_the_prediction_change_the_verdict(slow, tmp_path):
    right = mase_hw.simulate(slow, samples=20)
    assert right.as_predicted is True
    assert right.is_right
    late = changed(
        slow, tmp_path, "mase_round_pipeline", "assign take = data_in_valid && may_q;",
        "logic every_q;\n  always_ff @(posedge clk) every_q <= rst ? 1'b0 : !every_q;\n"
        "  assign take = data_in_valid && data_in_ready;",
    )  # fmt: skip
    path = late / "rtl" / "mase_round_pipeline.sv"
    path.write_text(path.read_text().replace("ready = may_q;", "ready = may_q && every_q;"))
    report = exact(late, samples=20)
    assert report.as_predicted is False
    assert not report.is_right
    assert mase_hw.simulate(late, samples=20, stall=0.2).as_predicted is None


@pytest.mark.full
def test_a_register_that_needs_two_cycles_of_reset_is_found(slow, tmp_path):
    """The flag that results are waiting is cleared in the second cycle of a reset alone."""
    broken = changed(
        slow, tmp_path, "mase_level", "some <= START != 0;", "some <= level_q != '0 || START != 0;"
    )
    outcome = None
    for seed in range(4):
        try:
            outcome = mase_hw.simulate(broken, samples=5, seed=seed).bit_exact
        except mase_hw.MaseError:
            outcome = False
        if not outcome:
            break
    assert outcome is False


def test_random_inputs_of_blocks_are_of_one_magnitude_every_other_time(tmp_path):
    model = nn.Linear(32, 4).eval()
    config = {"by": "type", "default": {"config": {"name": "mxint"}}}
    project = mase_hw.emit_verilog(
        mase_hw.quantize(mase_hw.trace(model, torch.randn(4, 32)), config), output=tmp_path / "net"
    )
    streams = DesignSummary.load(project.folder).inputs
    number = streams[0].spec.quantized
    values = number.decode(random_codes(streams, 40, 0)[0]).reshape(40, -1).abs().amax(1)
    assert values[1::2].max() < 16
    assert values[1::2].min() > 1 / 64
    assert values[0::2].max() > 1e6
