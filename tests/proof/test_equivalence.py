"""Designs that differ in one module are told apart, or proved to be the same."""

import shutil

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.design import DesignSummary
from mase_hw.errors import ProofError
from mase_hw.proof import Machines, equivalent

NARROW = {"by": "type", "default": {"config": {"name": "fixed", "data_in_width": 3}}}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("equivalence") / "net"
    model = nn.Linear(4, 3).eval()
    return mase_hw.emit_verilog(model, torch.randn(4, 4), output=folder, config=NARROW).folder


def compared(project, folder, module, old, new, **options):
    copy = shutil.copytree(project, folder / "copy")
    path = copy / "rtl" / f"{module}.sv"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    names = [line for line in (project / "files.f").read_text().split() if line.endswith(".sv")]
    summary = DesignSummary.load(project)
    left, right = (Machines(item, summary, names, module) for item in (project, copy))
    return equivalent(left, right, 10, **options)


def test_the_same_text_is_the_same_circuit(project, tmp_path):
    verdict = compared(project, tmp_path, "mase_counter", "endmodule", "// Nothing.\nendmodule")
    assert (verdict.status, verdict.depth) == ("proved", 0)


def test_what_never_happens_is_proved_to_change_nothing(project, tmp_path):
    """The address is never beyond the last word: by induction from the reset."""
    verdict = compared(
        project, tmp_path, "mase_rom_source", "(address_q == Addr", "(address_q >= Addr"
    )
    assert verdict.status == "proved"
    assert verdict.depth == 1


def test_a_result_that_differs_is_found_in_the_whole(project, tmp_path):
    verdict = compared(project, tmp_path, "mase_level", "more || !single", "more && !single")
    assert verdict.status == "refuted"
    assert verdict.depth > 2


def test_a_module_alone_is_not_judged_by_what_never_happens_around_it(project, tmp_path):
    """Both moves at once, from an empty level: nobody asks for that."""
    verdict = compared(
        project, tmp_path, "mase_level", "more || !single", "more && !single", whole=False
    )
    assert verdict.status == "bounded"


def test_a_text_that_is_no_design_is_refused(project, tmp_path):
    with pytest.raises(ProofError, match="Yosys cannot read the design"):
        compared(project, tmp_path, "mase_level", "endmodule", "endmodul")
