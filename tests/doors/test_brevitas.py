"""Modules of Brevitas: hardware gives the codes that the module itself gives."""

from __future__ import annotations

import pytest
import torch

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.graph.reference import IntegerReference, spec
from tests.doors.brevitas_models import MODELS

pytest.importorskip("brevitas")


@pytest.mark.parametrize("name", MODELS)
def test_codes_are_the_modules_own(name):
    model, x = MODELS[name]()
    with torch.no_grad():
        expected = model(x)
    low = lowered(quantize(mase_hw.trace(model, x[:2])))
    reference = IntegerReference(low)
    (entry,), (output,) = reference.inputs, reference.outputs
    number = spec(output).quantized
    found = reference([spec(entry).quantized.encode(x)])[output.name]
    wanted = number.encode(expected).reshape(found.shape)
    assert len(wanted.unique()) > 20
    assert int((found != wanted).sum()) == 0


@pytest.mark.first(1)
@pytest.mark.parametrize("name", MODELS)
def test_hardware_of_modules(name, tmp_path):
    model, x = MODELS[name]()
    project = mase_hw.emit_verilog(model, x[:2], output=tmp_path / "d", parallelism=2)
    report = mase_hw.simulate(project, x[:50], stall=0.2, seed=1)
    assert report.bit_exact, report.first_mismatch or report.violations
