"""The cells of an emitted design are proved with its modules, and their composition checked."""

import json

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import mase_hw
from mase_hw.cli import build_app
from mase_hw.errors import ConfigError, EmissionError
from mase_hw.proof import prove_design

LIMIT_SECONDS = 8.0
FORK = "rtl/mase_stream_fork.sv"


class Residual(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) + x


@pytest.fixture
def folder(tmp_path):
    mg = mase_hw.quantize(mase_hw.trace(Residual(), torch.randn(2, 4)))
    mase_hw.emit_verilog(mg, output=tmp_path / "net", parallelism=2)
    return tmp_path / "net"


def verdicts(report):
    return {row.claim: row.verdict.status for row in report.rows if row.cell == "Fork"}


def test_the_composition_and_a_cell_are_proved(folder):
    report = prove_design(folder, limit_seconds=LIMIT_SECONDS, samples=1)
    whole = report.rows[0]
    assert (whole.cell, whole.verdict.status) == ("the design", "ordered")
    assert int(whole.parameters.split()[0]) > 0
    assert report.edited == ()
    found = verdicts(report)
    assert found.pop("reach parted") == "reached"
    assert set(found.values()) == {"proved"}
    # What was not asked for is not called proved.
    others = [row for row in report.rows if row.claim == "stream properties"]
    assert {row.cell for row in others} >= {"BinaryFixed", "ClampFixed", "StreamFifo"}
    assert {row.verdict.status for row in others} == {"simulated"}


def test_a_module_that_was_edited_is_proved_as_it_is_and_named(folder):
    text = (folder / FORK).read_text()
    assert text.count("& ~done_q") == 1
    (folder / FORK).write_text(text.replace("& ~done_q", ""))
    report = prove_design(folder, limit_seconds=LIMIT_SECONDS, samples=1)
    assert report.edited == (FORK,)
    assert f"edited, and proved as it is: {FORK}" in report.summary
    assert verdicts(report)["not twice"] == "refuted"


def test_a_folder_that_is_no_project_is_refused(tmp_path):
    with pytest.raises(EmissionError, match=r"is not a mase-hw project: model.mase"):
        prove_design(tmp_path)


def test_the_command_takes_a_design_and_not_a_cell_beside_it(folder):
    runner = CliRunner()
    command = ["prove", "--design", str(folder), "--samples", "1", "--seconds", "8"]
    told = json.loads(runner.invoke(build_app(), [*command, "--json"]).output)
    assert (told["failed"], told["edited"]) == (0, [])
    both = runner.invoke(build_app(), ["prove", "StreamFifo", "--design", str(folder)])
    assert isinstance(both.exception, ConfigError)
    assert both.exit_code != 0
