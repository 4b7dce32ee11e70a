"""Files with integer codes: every code against exact rational numbers, and against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.graph.reference import IntegerReference, spec
from tests.doors.files import FILES
from tests.doors.rational import RationalModel
from tests.doors.runtime import Runtime


def codes_of(path, x):
    """Return the codes of the last rounding, by our integer reference and as rationals."""
    graph = quantize(mase_hw.trace(path))
    low = lowered(graph)
    (entry,) = low.inputs
    wanted = list(RationalModel(path).codes(x.numpy()).values())[-1]
    reference = IntegerReference(low)
    found = reference([spec(entry).quantized.encode(x)])
    (output,) = reference.outputs
    return found[output.name].reshape(wanted.shape).numpy(), wanted


@pytest.mark.first(6)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FILES)
def test_codes_are_those_of_exact_rationals(name, seed, tmp_path):
    path = FILES[name](tmp_path / "m.onnx", seed)
    shape = mase_hw.trace(path).example_inputs[0].shape
    x = torch.randn(300, *shape[1:], generator=torch.Generator().manual_seed(seed)) * 2
    found, wanted = codes_of(path, x)
    assert len(np.unique(wanted)) > 10
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", FILES)
def test_reals_are_those_of_onnx_runtime(name, tmp_path):
    path = FILES[name](tmp_path / "m.onnx", 7)
    graph = quantize(mase_hw.trace(path))
    shape = graph.example_inputs[0].shape[1:]
    x = torch.randn(200, *shape, generator=torch.Generator().manual_seed(2)) * 2
    found = torch.cat([graph(x[i : i + 1]) for i in range(len(x))])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    expected = np.concatenate([session.run(None, {"x": row[None].numpy()})[0] for row in x])
    step = spec(graph.outputs[0]).quantized.scale
    off = np.abs(found.detach().numpy() - expected) / step
    assert off.max() < 1.5
    assert (off > 0.5).mean() <= 1e-3


@pytest.mark.parametrize("name", FILES)
def test_codes_unlike_those_of_onnx_runtime_lie_next_to_ties(name, tmp_path):
    """Given the same codes, layers differ where single precision may decide, and nowhere else."""
    path = FILES[name](tmp_path / "m.onnx", 3)
    shape = mase_hw.trace(path).example_inputs[0].shape
    x = torch.randn(300, *shape[1:], generator=torch.Generator().manual_seed(3)).numpy() * 2
    model, theirs = RationalModel(path), Runtime(path).codes(x)
    for layer in model.differing(x, theirs):
        assert layer.largest <= 1
        assert all(a <= b for a, b in zip(layer.distances, layer.bounds, strict=True))
    last = list(theirs)[-1]
    theirs[last] = theirs[last] ^ 1
    *_, changed = model.differing(x, theirs)
    assert changed.largest == 1
    far = [a > b for a, b in zip(changed.distances, changed.bounds, strict=True)]
    assert sum(far) > 0.99 * changed.elements


@pytest.mark.parametrize("name", FILES)
def test_hardware_gives_the_same_codes(name, tmp_path):
    path = FILES[name](tmp_path / "m.onnx", 1)
    project = mase_hw.emit_verilog(mase_hw.trace(path), output=tmp_path / "d", parallelism=2)
    report = mase_hw.simulate(project, samples=40, stall=0.3, seed=1)
    assert report.bit_exact, report.first_mismatch or report.violations
