"""The 16-64-32-32-5 perceptron: bit-exact in both engines, in the predicted cycles."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch

import mase_hw
from mase_hw.emit.project import Project, load_reference
from tests.engines import both
from tests.flow.perceptrons import JET_TAGGER, assert_bit_exact, quantized

OUTPUTS = JET_TAGGER[-1]
STALL = 0.3


def emit(folder: Path, parallelism: int) -> Project:
    graph = quantized(*JET_TAGGER)
    return mase_hw.emit_verilog(graph, output=folder, parallelism=parallelism)


def bound(parallelism: int) -> int:
    return max(-(-i // parallelism) * -(-o // parallelism) for i, o in pairwise(JET_TAGGER))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return emit(tmp_path_factory.mktemp("jet") / "p4", 4)


@pytest.mark.parametrize(("engine", "count"), [("native", 2000), ("cocotb", 60)])
def test_bit_exact_under_random_stalls(project, engine, count):
    report = mase_hw.simulate(project, samples=count, engine=engine, stall=STALL, seed=2)
    assert_bit_exact(report, count * OUTPUTS)


@both
def test_cycles_are_the_bound_and_the_prediction(project, engine):
    report = mase_hw.simulate(project, samples=30, engine=engine)
    assert_bit_exact(report, 30 * OUTPUTS)
    assert report.interval_cycles == report.predicted_interval_cycles == bound(4) == 128
    assert report.latency_cycles == report.predicted_latency_cycles


@pytest.mark.full
@pytest.mark.parametrize("parallelism", [1, 2, 4, 8, 16])
def test_every_parallelism(parallelism, tmp_path):
    emitted = emit(tmp_path / "out", parallelism)
    for engine, count in (("native", 20_000), ("cocotb", 200)):
        report = mase_hw.simulate(emitted, samples=count, engine=engine, stall=STALL, seed=1)
        assert_bit_exact(report, count * OUTPUTS)
        free = mase_hw.simulate(emitted, samples=50, engine=engine)
        assert free.interval_cycles == free.predicted_interval_cycles == bound(parallelism)
        assert free.latency_cycles == free.predicted_latency_cycles


def test_the_fake_quantized_model_is_the_decoded_reference(project):
    (entering,), (leaving,) = project.design.inputs, project.design.outputs
    generator = torch.Generator().manual_seed(4)
    codes = entering.spec.quantized.random_codes((5000, *entering.spec.shape), generator)
    expected = load_reference(project.folder)([codes])[leaving.node]
    model = project.mg.copy().double()
    with torch.no_grad():
        found = model(entering.spec.quantized.decode(codes).reshape(5000, -1))
    decoded = leaving.spec.quantized.decode(expected).reshape(5000, OUTPUTS)
    assert torch.equal(found, decoded)
    assert decoded.unique().numel() > 20
