"""A graph is a module: called, trained, moved and saved, it is the quantised model."""

import copy
import io

import pytest
import torch
from rich.console import Console
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import CaptureError, ConfigError, MaseError
from mase_hw.graph import trace
from mase_hw.graph.reference import IntegerReference, spec
from tests.modules import Layers

ENTRY = {"name": "fixed", "data_in_width": 3, "weight_width": 3, "bias_width": 3}
COARSE = {"default": {"config": ENTRY}}
INPUTS = torch.randn(20, 6, generator=torch.Generator().manual_seed(1))


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def quantized(model=None):
    return mase_hw.quantize(trace(model or perceptron(), INPUTS), COARSE)


def exact(mg, inputs):
    reference = IntegerReference(mg)
    codes = spec(reference.inputs[0]).quantized.encode(inputs).reshape(-1, 1, 6)
    found = spec(reference.outputs[0]).quantized.decode(
        reference([codes])[reference.outputs[0].name]
    )
    return found.reshape(-1, 3).float()


def test_calling_a_quantized_graph_computes_what_its_hardware_does():
    mg = quantized()
    assert torch.equal(mg(INPUTS), exact(mg, INPUTS))
    assert torch.equal(mg(**{mg.inputs[0].target: INPUTS}), mg(INPUTS))
    assert not torch.allclose(mg(INPUTS), perceptron()(INPUTS), atol=1e-2)


def test_state_has_the_names_of_the_model_and_is_the_graphs_own():
    mg = quantized()
    state = mg.state_dict()
    formats = state.pop("number_formats")
    assert list(state) == list(perceptron().state_dict())
    assert dict(mg.named_parameters())["0.weight"] is mg.model.get_parameter("0.weight")
    before = mg(INPUTS)
    negated = {key: -value for key, value in state.items()}
    mg.load_state_dict({**negated, "number_formats": formats})
    assert torch.equal(mg(INPUTS), exact(mg, INPUTS))
    assert not torch.equal(mg(INPUTS), before)


def test_formats_survive_pickling_and_copying():
    mg = quantized()
    buffer = io.BytesIO()
    torch.save(mg, buffer)
    buffer.seek(0)
    for again in (torch.load(buffer, weights_only=False), copy.deepcopy(mg), mg.copy()):
        assert torch.equal(again(INPUTS), mg(INPUTS))
        assert again.get_parameter("0.weight") is not mg.get_parameter("0.weight")


def test_another_dtype_moves_weights_examples_and_results():
    mg = quantized().to(torch.float64)
    assert {value.dtype for value in (*mg.parameters(), *mg.example_inputs)} == {torch.float64}
    assert mg(INPUTS.double()).dtype == torch.float64
    assert torch.equal(mg(INPUTS.double()).float(), exact(mg, INPUTS))


def test_an_unrounded_run_is_the_float_model_bit_for_bit():
    from mase_hw.graph.quantized import GraphRun

    def mixed(m, ids):
        x = m.table(ids)
        return {"a": x * 0.044715 + 1e-6, "b": (ids * 0.5, [x.tanh()])}

    ids = torch.randint(0, 10, (3, 5), generator=torch.Generator().manual_seed(0))
    model = Layers(mixed, table=nn.Embedding(10, 4))
    mg = trace(model, ids, batched=False)
    found, expected = GraphRun(mg)([ids]), model(ids)
    assert type(found) is dict
    assert [type(found["b"]), type(found["b"][1])] == [tuple, list]
    assert found["a"].equal(expected["a"])
    assert found["b"][0].equal(expected["b"][0])
    assert found["b"][1][0].equal(expected["b"][1][0])


def test_a_graph_is_captured_once_and_is_what_quantize_takes():
    with pytest.raises(CaptureError, match="captured graph already"):
        trace(quantized(), INPUTS)
    with pytest.raises(ConfigError, match="takes a graph, not a Sequential"):
        mase_hw.quantize(perceptron())


def test_long_names_leave_room_for_every_column_of_80_characters():
    class Long(nn.Module):
        def __init__(self):
            super().__init__()
            self.a_block_of_layers_with_a_long_name = nn.ModuleDict(
                {"another_name_that_takes_its_room": perceptron()}
            )

        def forward(self, x):
            return self.a_block_of_layers_with_a_long_name["another_name_that_takes_its_room"](x)

    mg = quantized(Long())
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(mg.table())
    for text in (console.file.getvalue(), str(mg)):
        first = next(line for line in text.splitlines() if "a_block_of" in line)
        columns = ("linear", "1 x 8", "fixed<3,1>", "1 x 1", "test_module")
        assert all(word in first for word in columns), text
        assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    lines = console.file.getvalue().splitlines()
    joined = "".join(line.split()[0] for line in lines if line.strip())
    assert "a_block_of_layers_with_a_long_name_another_name_that_takes_its_room_0" in joined


def test_missing_and_unknown_inputs_are_named():
    mg = quantized()
    with pytest.raises(MaseError, match="needs the input"):
        mg()
    with pytest.raises(MaseError, match="takes 1 inputs, not 2"):
        mg(INPUTS, INPUTS)
    with pytest.raises(MaseError, match="has no input 'y'"):
        mg(INPUTS, y=INPUTS)


def test_what_is_written_is_its_own() -> None:
    graph = trace(nn.Linear(4, 3), torch.randn(2, 4))
    copy = graph.copy()
    (weight, *_), (other, *_) = graph.parameters(), copy.parameters()
    before = weight.detach().clone()
    with torch.no_grad():
        other.add_(1.0)
    assert torch.equal(weight, before)
    assert torch.equal(other, before + 1)
    with torch.no_grad():
        weight.mul_(2.0)
    assert torch.equal(other, before + 1)


def test_constants_in_double_are_not_kept() -> None:
    graph = canonicalize(trace(nn.Linear(4, 3), torch.randn(2, 4)))
    (node,) = (item for item in graph.nodes if item.op == "call_function")
    constants = graph.call(node).constants
    assert set(constants) == {"weight", "bias"}
    assert "weight" in constants
    assert constants["weight"].dtype is torch.float64
    assert constants["weight"] is not constants["weight"]
