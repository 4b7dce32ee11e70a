"""A quantised graph beside the float model: sums over batches, clipped elements, bad data."""

import math

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.emit.warnings import UNMEASURED, check_sqnr, sqnr_problems, warnings
from mase_hw.errors import ConfigError, DataError, EmissionError
from mase_hw.graph import MaseGraph, metadata, update
from mase_hw.graph.agreement import tensor_db
from mase_hw.ops import Apply
from mase_hw.passes.formats.agreement import MAX_EXAMPLES, measure_agreement_analysis_pass
from mase_hw.passes.formats.calibrate import calibrate_analysis_pass
from mase_hw.passes.formats.expected_agreement import losses, model_agreement, precision_db
from mase_hw.passes.formats.report_quantization import report_quantization_analysis_pass
from tests.bench.fidelity_models import cases, entry, masked

CASES = list({case.name: case for case in cases()}.values())


def decibels(exact, rounded):
    exact, rounded = exact.double(), rounded.double()
    return 10 * math.log10(exact.square().sum() / (exact - rounded).square().sum())


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3)).eval()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outputs_are_measured_against_the_users_model(case):
    model = case.model.eval()
    graph = mase_hw.quantize(mase_hw.trace(model, case.inputs), case.config)
    with torch.no_grad():
        exact, rounded = model(*case.inputs), graph(*case.inputs)
    exact, rounded = ([x] if isinstance(x, torch.Tensor) else [*x] for x in (exact, rounded))
    found = model_agreement(graph)
    assert found.examples == len(case.inputs[0])
    for item, left, right in zip(found.outputs.values(), exact, rounded, strict=True):
        assert item.tensor_db == pytest.approx(decibels(left, right), abs=0.1)


@pytest.mark.parametrize("form", [list, iter], ids=["list", "generator"])
def test_the_first_examples_of_all_batches_are_run(form):
    model, data = perceptron(), torch.randn(3 * MAX_EXAMPLES, 8)
    batches = form([data[:100], data[100:101], data[101:]])
    graph = mase_hw.quantize(mase_hw.trace(model, data[:8]), data=batches)
    found = model_agreement(graph)
    assert found.examples == MAX_EXAMPLES
    with torch.no_grad():
        exact, rounded = (run(data[:MAX_EXAMPLES]) for run in (model, graph))
    assert found.outputs["output"].tensor_db == pytest.approx(decibels(exact, rounded), abs=1e-3)
    hidden = metadata(graph.node("tanh_1")).agreement
    assert 0 < hidden.tensor_db < 60


def test_clipped_elements_are_counted():
    config = entry(8, linear_0={"name": "fixed", "data_in_width": 8, "data_in_frac_width": 7})
    inputs = torch.randn(64, 8)
    graph = mase_hw.quantize(mase_hw.trace(perceptron(), inputs), config)
    found = metadata(graph.inputs[0]).agreement.saturated
    clipped = (inputs < -1 - 2**-8) | (inputs > 1 - 2**-8)
    assert found["data_out_0"] == pytest.approx(float(clipped.double().mean()))
    (loss,) = losses(graph)
    assert loss.node is graph.inputs[0]
    assert graph.inputs[0].name in {note.node for note in warnings(graph)}
    report = report_quantization_analysis_pass(graph, {"sensitivity": False})[1]
    assert report["examples"] == 64
    assert set(report["outputs"]) == {"output"}


def test_indices_are_compared_for_equality():
    inputs, model = torch.randn(200, 8), nn.Sequential(perceptron(), Apply(lambda y: y.argmax(-1)))
    graph = mase_hw.quantize(mase_hw.trace(model.eval(), inputs), entry(4))
    (found,) = model_agreement(graph).outputs.values()
    same = (model(inputs).reshape(-1) == graph(inputs).reshape(-1)).double().mean()
    assert found.sqnr_db is None
    assert found.equal == pytest.approx(float(same))
    assert 0.5 < found.equal < 1


def test_a_finite_number_that_becomes_none_is_all_lost():
    exact = torch.tensor([1.0, 2.0])
    for lost in (math.inf, -math.inf, math.nan):
        assert tensor_db(exact, torch.tensor([1.0, lost])) == -math.inf
    assert tensor_db(exact, exact) == math.inf


def test_what_is_asked_for_is_measured_and_reached():
    graph = mase_hw.quantize(mase_hw.trace(perceptron(), torch.randn(64, 8)), entry(16))
    check_sqnr(graph, None)
    check_sqnr(graph, 10)
    with pytest.raises(EmissionError, match=r"agrees with the float .* dB.* on 64 examples"):
        check_sqnr(graph, 150)
    assert warnings(graph) == []
    update(graph.fx_graph.output_node(), agreement=None)
    assert [note.text for note in warnings(graph)] == [UNMEASURED]
    assert sqnr_problems(graph, None) == []
    with pytest.raises(EmissionError, match="were not compared"):
        check_sqnr(graph, 1)


def test_a_graph_keeps_what_was_measured(tmp_path):
    graph = mase_hw.quantize(mase_hw.trace(perceptron(), torch.randn(8, 8)))
    again = MaseGraph.load(graph.save(tmp_path / "graph.mase"))
    first, second = model_agreement(graph), model_agreement(again)
    assert second.to_dict() == first.to_dict()
    assert second.worst == first.worst is not None


def test_loop_boundaries_and_training_mode_change_nothing():
    torch.manual_seed(0)
    block = [nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU()]
    model = nn.Sequential(*block, nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU()).eval()
    graphs = [
        mase_hw.quantize(mase_hw.trace(model, torch.randn(16, 8)), reuse=reuse)
        for reuse in (False, True)
    ]
    for graph in graphs:
        known = model_agreement(graph).sqnr_db
        graph.train()
        measure_agreement_analysis_pass(graph)
        assert graph.training
        assert model_agreement(graph).sqnr_db == known > 0


@pytest.mark.parametrize("reader", ["log-softmax", "maximum", "softmax"])
def test_fills_are_those_of_the_users_model(reader):
    """On data whose scores go below a fill that was bounded on the examples."""
    case = next(item for item in masked() if item.name == f"{reader}, -1e+09, input")
    model, large = case.model.eval(), (20 * case.inputs[0], case.inputs[1])
    graph = mase_hw.quantize(mase_hw.trace(model, case.inputs), case.config)
    assert model_agreement(graph).sqnr_db > 60
    measure_agreement_analysis_pass(graph, {"data": [large]})
    with torch.no_grad():
        expected = decibels(model(*large), graph(*large))
    (found,) = model_agreement(graph).outputs.values()
    assert found.tensor_db == pytest.approx(expected, abs=0.1)


def test_precision_is_of_the_fields_that_are_not_fitted():
    from mase_hw.formats import formats, make_format

    fine, coarse = (make_format({"name": "fixed", "width": 8, "frac_width": f}) for f in (9, -3))
    assert precision_db(fine) == precision_db(coarse) == pytest.approx(6.02 * 8 - 7.3, abs=1.5)
    assert all(math.isfinite(precision_db(cls())) for cls in formats().values())


BAD_DATA = {
    "empty": ([], ConfigError, "holds no batches with an example"),
    "no example": ([torch.zeros(0, 8)], ConfigError, "holds no batches with an example"),
    "a generator at its end": (iter(()), ConfigError, "gives no more"),
    "a tensor": (torch.zeros(2, 8), ConfigError, r"data is of type Tensor; allowed: .* \[batch\]"),
    "a number": (3, ConfigError, "data is of type int; allowed: batches"),
    "another shape": ([torch.zeros(2, 9)], DataError, r"shape \(2, 9\); .* takes \(N, 8\)"),
    "another rank": ([torch.zeros(2, 8, 1)], DataError, r"shape \(2, 8, 1\)"),
    "another type": ([torch.zeros(2, 8).double()], DataError, "float64; .* takes torch.float32"),
    "NaN": ([torch.full((2, 8), math.nan)], DataError, r"holds NaN, first at \(0, 0\)"),
    "infinity": ([torch.full((2, 8), math.inf)], mase_hw.errors.MaseError, "not all finite|infin"),
    "no tensor": ([{"input": 3}], DataError, "is of type int; allowed: tensors"),
}


@pytest.mark.parametrize("name", BAD_DATA)
@pytest.mark.parametrize("verb", ["quantize", "calibrate"])
def test_bad_data_is_named(name, verb):
    data, error, message = BAD_DATA[name]
    if name == "a generator at its end":
        data = iter(())
    graph = mase_hw.trace(perceptron(), torch.randn(8, 8))
    if verb == "quantize":
        with pytest.raises(error, match=message):
            mase_hw.quantize(graph, data=data)
    else:
        with pytest.raises(mase_hw.errors.MaseError):
            calibrate_analysis_pass(canonicalize(graph), {"config": entry(8), "data": data})
