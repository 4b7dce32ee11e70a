"""Whole numbers that are computed: exact, of as many bits as they take."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import FormatError
from mase_hw.graph import common, trace
from mase_hw.ops import Apply, example_values
from mase_hw.passes.formats.calibrate import calibrate_analysis_pass
from tests.engines import each

NARROW = {"by": "type", "default": {"config": {"name": "fixed", "data_in_width": 4}}}


class Positions(nn.Module):
    """A table of positions, counted as RoBERTa counts them."""

    def __init__(self, tokens, vocabulary, padding=1):
        super().__init__()
        self.padding = padding
        self.words = nn.Embedding(vocabulary, 3)
        self.places = nn.Embedding(tokens + padding + 1, 3)
        self.register_buffer("kinds", torch.zeros(1, tokens + padding + 1, dtype=torch.int64))
        self.kind = nn.Embedding(2, 3)

    def numbers(self, ids):
        mask = ids.ne(self.padding).int()
        return ((torch.cumsum(mask, dim=1).type_as(mask) + 0) * mask).long() + self.padding

    def forward(self, ids):
        places = self.numbers(ids)
        kinds = torch.gather(self.kinds.expand(ids.shape[0], -1), 1, places)
        return self.words(ids) + self.places(places) + self.kind(kinds)


def ids(rows, tokens, most, seed=0):
    generator = torch.Generator().manual_seed(seed)
    found = torch.randint(2, most, (rows, tokens), generator=generator)
    found[1, tokens // 2 :] = 1
    return found


def formats(graph):
    return {node.name: common(node).results["data_out_0"].format for node in graph.inputs}


def check_hardware(graph, inputs, folder, engine):
    project = mase_hw.emit_verilog(graph, output=folder / "project")
    report = mase_hw.simulate(project, inputs, engine=engine, stall=0.3)
    assert report.bit_exact, report
    free = mase_hw.simulate(project, inputs, engine=engine)
    assert free.latency_cycles == free.predicted_latency_cycles
    assert free.interval_cycles == free.predicted_interval_cycles


@each
def test_positions_counted_from_ids_are_exact(engine, tmp_path):
    torch.manual_seed(0)
    inputs = ids(4, 5, 19)
    graph = mase_hw.quantize(mase_hw.trace(Positions(5, 19), inputs))
    check_hardware(graph, inputs, tmp_path, engine)


def test_numbers_are_those_of_the_model_whatever_is_configured():
    """More tokens and words than 8 bits count."""
    model, inputs = Positions(300, 5000), ids(3, 300, 5000)
    counted = mase_hw.trace(Apply(model.numbers), inputs)
    for config in (None, NARROW):
        assert torch.equal(mase_hw.quantize(counted, config)(inputs), model.numbers(inputs))
    graph = mase_hw.quantize(mase_hw.trace(model, inputs), NARROW)
    # What reads the ids besides, a comparison with 1, does not narrow them.
    assert str(formats(graph)["ids"]) == "ufixed<13,0>"


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (torch.tensor([[1, 1, 0]]), "ufixed<2,0>"),
        (torch.tensor([[1, 2, 0]]), "ufixed<16,0>"),
        (torch.tensor([[1, -1, 0]]), "fixed<16,0>"),
        (torch.tensor([[1, 1 << 20, 0]]), "ufixed<21,0>"),
    ],
)
def test_a_mask_has_two_bits_and_other_numbers_at_least_sixteen(inputs, expected):
    graph = mase_hw.quantize(mase_hw.trace(Apply(lambda x: x.cumsum(1) * x - 3), inputs))
    assert list(map(str, formats(graph).values())) == [expected]
    assert torch.equal(graph(inputs), inputs.cumsum(1) * inputs - 3)


@each
def test_the_row_that_an_index_picks_is_exact(engine, tmp_path):
    """By the place of the largest, and by an input that may count from the end."""

    def pick(x, words, place):
        rows = torch.arange(x.shape[0])
        return x.relu()[rows, words.argmax(-1)] + x[rows, place[:, 0]]

    words = torch.tensor([[3, 9, 1, 2], [9, 1, 9, 2], [1, 2, 3, 4]])
    inputs = (example_values(3, 4, 3), words, torch.tensor([[1], [-1], [-4]]))
    graph = mase_hw.trace(Apply(pick), inputs)
    assert torch.equal(graph(*inputs), pick(*inputs))
    check_hardware(mase_hw.quantize(graph), inputs, tmp_path, engine)


@pytest.mark.full
def test_rows_of_a_constant_at_computed_places(tmp_path):
    table = example_values(5, 2, 3)
    inputs = torch.tensor([[0, 4, 2], [1, 1, 3]])
    graph = mase_hw.trace(Apply(lambda x, rows: rows[x], table), inputs)
    assert torch.equal(graph(inputs), table[inputs])
    project = mase_hw.emit_verilog(mase_hw.quantize(graph), output=tmp_path / "project")
    assert mase_hw.simulate(project, inputs, stall=0.3).bit_exact


def test_whole_numbers_are_summed_and_gathered_exactly(tmp_path):
    def joined(x, places):
        return torch.gather(x, 1, places) + x.sum(1, keepdim=True) - torch.maximum(x, places)

    inputs = ids(2, 6, 900, seed=1), ids(2, 6, 6, seed=2)
    graph = mase_hw.quantize(mase_hw.trace(Apply(joined), inputs), NARROW)
    assert torch.equal(graph(*inputs), joined(*inputs))
    project = mase_hw.emit_verilog(graph, output=tmp_path / "project")
    assert mase_hw.simulate(project, inputs, stall=0.3).bit_exact


UNSIGNED = {"name": "fixed", "data_in_width": 12, "data_in_signed": False}


def graph():
    torch.manual_seed(0)
    return trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)), torch.randn(30, 4))


@pytest.mark.parametrize("node", ["linear_0", "relu_1"])
def test_negative_inputs_are_refused_by_name(node):
    config = {"by": "name", node: {"config": UNSIGNED}}
    with pytest.raises(FormatError, match=rf"data_in_0 of {node} .*data_in_signed is false"):
        mase_hw.quantize(graph(), config)
    with pytest.raises(FormatError, match=rf"data_in_0 of {node} .*data_in_signed is false"):
        calibrate_analysis_pass(canonicalize(graph()), {"config": config})


def test_results_of_a_rectifier_need_no_sign_and_weights_and_results_get_one():
    mg = graph()
    (x,) = mg.example_inputs
    found = mase_hw.quantize(mg, {"by": "name", "linear_2": {"config": UNSIGNED}})
    specs = common(found.node("linear_2"))
    signs = [item.format.signed for item in (*specs.operands.values(), *specs.results.values())]
    assert signs == [False, True, True, True]
    assert (found(x) - mg(x)).abs().max() < 0.01


def test_a_weight_that_is_said_to_have_no_sign_is_refused():
    entry = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "weight_signed": False}
    with pytest.raises(FormatError, match=r"weight of linear_0 .*weight_signed is false"):
        mase_hw.quantize(graph(), {"linear": {"config": entry}})


def test_integers_with_a_zero_point_hold_numbers_below_it():
    entry = {"name": "scaled_integer", "data_in_width": 8, "data_in_signed": False}
    mg = graph()
    (x,) = mg.example_inputs
    free = {**entry, "data_in_symmetric": False, "weight_symmetric": True}
    assert (mase_hw.quantize(mg, {"linear": {"config": free}})(x) - mg(x)).abs().max() < 0.1
    with pytest.raises(FormatError, match="data_in_signed is false"):
        mase_hw.quantize(mg, {"linear": {"config": {**entry, "data_in_symmetric": True}}})


def test_a_result_ends_at_zero_where_that_is_said_of_it():
    entry = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "data_out_width": 8}
    mg = graph()
    (x,) = mg.example_inputs
    found = mase_hw.quantize(mg, {"linear": {"config": {**entry, "data_out_signed": False}}})
    assert (found(x) >= 0).all()
