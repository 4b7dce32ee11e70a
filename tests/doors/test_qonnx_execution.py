"""Files of the package qonnx against its own execution."""

from __future__ import annotations

import pytest
import torch

import mase_hw

pytest.importorskip("qonnx")
execution = pytest.importorskip("tests.doors.qonnx_execution")


@pytest.mark.slow
@pytest.mark.parametrize("path", execution.files(), ids=execution.label)
def test_reals_are_those_of_qonnx(path):
    graph = mase_hw.trace(path)
    tensors, (name,) = execution.executed(path, graph.example_inputs)
    found = graph(*graph.example_inputs)
    torch.testing.assert_close(found, tensors[name], rtol=1e-3, atol=1e-4)
