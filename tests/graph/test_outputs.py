"""Outputs of any nesting: every tensor becomes a port under its name, anything else is refused."""

from collections import OrderedDict, defaultdict, namedtuple

import pytest
import torch
from transformers.modeling_outputs import BaseModelOutput

import mase_hw
from mase_hw.emit.flow import quantize
from mase_hw.emit.preflight import notes, preflight
from mase_hw.errors import UnsupportedError
from mase_hw.graph import MaseGraph, trace
from mase_hw.graph.quantized import GraphRun
from mase_hw.ops import Apply

Pair = namedtuple("Pair", ["first", "second"])
INPUTS = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))

NESTED = {
    "tensor": (lambda x: x + 1, ("output",)),
    "one in a tuple": (lambda x: (x + 1,), ("0",)),
    "nested tuple": (lambda x: (x + 1, (torch.relu(x),)), ("0", "1.0")),
    "two nested": (lambda x: (x + 1, (torch.relu(x), x * 2)), ("0", "1.0", "1.1")),
    "nested first": (lambda x: ([torch.relu(x)], x + 1), ("0.0", "1")),
    "dict": (lambda x: {"logits": x + 1, "hidden": [torch.relu(x)]}, ("logits", "hidden.0")),
    "one in a dict": (lambda x: {"logits": x + 1}, ("logits",)),
    "ordered dict": (lambda x: OrderedDict(b=x + 1, a=x * 2), ("b", "a")),
    "default dict": (lambda x: defaultdict(list, {"u": x + 1, "v": x * 2}), ("u", "v")),
    "named tuple": (lambda x: Pair(x + 1, torch.relu(x)), ("0", "1")),
    "model output": (
        lambda x: BaseModelOutput(last_hidden_state=x + 1, attentions=(torch.relu(x),)),
        ("last_hidden_state", "attentions.0"),
    ),
    "none": (lambda x: (x + 1, None), ("0",)),
    "an input": (lambda x: (x + 1, x), ("0", "1")),
    "an input twice": (lambda x: {"a": x, "b": (x, torch.relu(x))}, ("a", "b.0", "b.1")),
    "one twice": (lambda x: (y := x + 1, [y]), ("0", "1.0")),
}


@pytest.mark.parametrize("name", NESTED)
def test_every_tensor_that_is_returned_is_a_port(name, tmp_path):
    function, names = NESTED[name]
    mg = trace(Apply(function), INPUTS)
    assert mg.output_names == names
    assert MaseGraph.load(mg.save(tmp_path / "graph.mase")).output_names == names
    quantized = quantize(mg)
    assert quantized.output_names == names
    assert preflight(quantized) == []
    project = mase_hw.emit_verilog(quantized, output=tmp_path / "project")
    assert [stream.name for stream in project.design.outputs] == [
        f"data_out_{number}" for number in range(len(names))
    ]
    text = (tmp_path / "project" / "top.sv").read_text()
    assert all(f"data_out_{number}_valid" in text for number in range(len(names)))


def test_every_output_is_simulated(tmp_path):
    function, names = NESTED["two nested"]
    project = mase_hw.emit_verilog(Apply(function), INPUTS, output=tmp_path / "project")
    report = mase_hw.simulate(project, INPUTS)
    assert report.bit_exact
    assert report.elements == len(names) * INPUTS.numel()


def test_the_quantized_model_nests_its_outputs_as_the_model_does():
    def function(x):
        return {"logits": torch.relu(x), "past": ((x * 2, None), [x])}

    mg = quantize(trace(Apply(function), INPUTS))
    exact = GraphRun(mg, only=())([INPUTS])
    assert type(exact) is dict
    assert torch.equal(exact["logits"], torch.relu(INPUTS))
    assert torch.equal(exact["past"][0][0], INPUTS * 2)
    assert exact["past"][0][1] is None
    assert torch.equal(exact["past"][1][0], INPUTS)


UNFIT = {
    "number": (Apply(lambda x: (torch.relu(x), 3.5)), "result 1 is the float 3.5"),
    "size": (Apply(lambda x: (torch.relu(x), x.shape[0])), "result 1 is the int 3"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_is_no_stream_is_refused_with_its_name(name, tmp_path):
    model, reason = UNFIT[name]
    mg = quantize(trace(model, INPUTS))
    (problem,) = preflight(mg)
    assert problem.node == "output"
    assert reason in problem.reason
    assert "return" in problem.reason
    with pytest.raises(UnsupportedError, match=reason):
        mase_hw.emit_verilog(mg, output=tmp_path / "project")
    assert not (tmp_path / "project").exists()


def test_a_constant_beside_what_is_computed_has_no_port(tmp_path):
    model = Apply(lambda x, table: {"y": torch.relu(x), "scaled": table * 2}, torch.arange(4.0))
    mg = quantize(trace(model, INPUTS))
    assert preflight(mg) == []
    assert ["result scaled is a constant" in str(note) for note in notes(mg)].count(True) == 1
    project = mase_hw.emit_verilog(mg, output=tmp_path / "project")
    assert len(project.design.outputs) == 1


def test_a_constant_for_each_row_has_a_port(tmp_path):
    model = Apply(lambda x: (torch.relu(x), torch.ones(x.shape[0], 2)))
    project = mase_hw.emit_verilog(model, INPUTS, output=tmp_path / "project")
    report = mase_hw.simulate(project, samples=3)
    assert report.bit_exact
    assert report.values["data_out_1"].shape == (3, 2)
    assert bool((report.values["data_out_1"] == 1).all())
