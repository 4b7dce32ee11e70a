"""What is told of a model that its number formats do not keep: warnings, cures, asked decibels."""

import copy
import json
import logging
import math
import re

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.warnings import warnings
from mase_hw.errors import EmissionError
from mase_hw.graph import MaseGraph
from mase_hw.passes.formats.expected_agreement import model_agreement
from tests.bench.fidelity_models import entry, masked
from tests.flow.perceptrons import command, json_command

KEYS = re.compile(r"(?:give|and) (\w+) ((?:(?:, )?\w+ = [\w.-]+)+)")


class Head(nn.Module):
    """A layer whose result is read whole and by a layer of a range of its own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.last = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.layer(x)))


def head(**keys):
    """Return a graph of 16 bits, with keys for its first layer."""
    first = entry(16)["default"]["config"] | keys
    graph = mase_hw.trace(Head().eval(), torch.randn(64, 6), name="head")
    return graph, entry(16, layer=first)


SPOILT = {
    "a result that saturates": {"data_out_width": 16, "data_out_frac_width": 17},
    "an input that saturates": {"data_in_width": 16, "data_in_frac_width": 15},
    "a weight that saturates": {"weight_width": 16, "weight_frac_width": 18},
    "an input of too few fraction bits": {"data_in_width": 16, "data_in_frac_width": 3},
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_lost_is_told_with_the_line_and_a_cure(name):
    captured, config = head(**SPOILT[name])
    graph = mase_hw.quantize(captured, config)
    before = model_agreement(graph).sqnr_db
    assert before < 55
    told = warnings(graph)
    assert told
    assert any("test_agreement.py" in str(note) for note in told) or "input" in name
    assert f"{before:.1f} dB" in told[0].text
    mended = mase_hw.quantize(captured, with_keys(config, told))
    assert model_agreement(mended).sqnr_db > before + 10


def with_keys(config, told):
    config = copy.deepcopy(config)
    for name, keys in (found for note in told for found in KEYS.findall(note.text)):
        config.setdefault(name, copy.deepcopy(config["default"]))
        for key, value in (item.split(" = ") for item in keys.split(", ")):
            config[name]["config"][key] = json.loads(value)
    return config


def test_what_is_as_good_as_its_formats_is_not_told():
    for bits in (4, 8, 16):
        captured, _ = head()
        assert warnings(mase_hw.quantize(captured, entry(bits))) == []


def test_a_masked_mean_is_told_where_its_mean_is_of_the_fill():
    low = 0
    for case in (item for item in masked() if item.name.startswith("mean")):
        graph = mase_hw.quantize(mase_hw.trace(case.model.eval(), case.inputs), case.config)
        if model_agreement(graph).sqnr_db < 70:
            low += 1
            assert any(note.text.startswith("output output: -") for note in warnings(graph))
    assert low == 4


def test_few_and_constant_examples_are_told():
    for inputs, words in (
        (torch.randn(1, 6), ("1 example", "trace the model with 5 or more")),
        (torch.zeros(16, 6), ("it is 0 in every element", "fitted to nothing")),
        (torch.full((16, 6), 2.5), ("it is 2.5 in every element",)),
    ):
        graph = mase_hw.quantize(mase_hw.trace(Head().eval(), inputs))
        notes = " ".join(map(str, warnings(graph)))
        assert all(word in notes for word in words), notes


def test_emission_warns_and_refuses_what_was_asked_for(tmp_path, caplog):
    captured, config = head(**SPOILT["a result that saturates"])
    with caplog.at_level(logging.WARNING):
        project = mase_hw.emit_verilog(captured, output=tmp_path / "a", config=config)
    assert [note.text in caplog.text for note in project.warnings] == [True]
    with pytest.raises(EmissionError, match=r"output output agrees .* asked for: 60 dB"):
        mase_hw.emit_verilog(captured, output=tmp_path / "b", config=config, min_sqnr=60)
    assert not (tmp_path / "b").exists()


def test_emission_measures_a_graph_that_was_trained(tmp_path):
    captured, config = head()
    graph = mase_hw.quantize(captured, config)
    with torch.no_grad():
        graph.get_parameter("layer.weight").mul_(40)
    assert model_agreement(graph).sqnr_db > 60
    with pytest.raises(EmissionError, match="asked for: 60 dB"):
        mase_hw.emit_verilog(graph, output=tmp_path / "a", min_sqnr=60)


@pytest.mark.parametrize("reuse", [False, True])
def test_a_simulation_measures_the_outputs_of_the_hardware(tmp_path, reuse):
    torch.manual_seed(0)
    layers = [layer for _ in range(3) for layer in (nn.Linear(6, 6), nn.Tanh())]
    model, inputs = nn.Sequential(*layers).eval(), torch.randn(40, 6)
    project = mase_hw.emit_verilog(model, inputs[:8], output=tmp_path / "net", reuse=reuse)
    told = json.loads((project.folder / "design.json").read_text())["agreement"]
    report = mase_hw.simulate(project, inputs, min_sqnr=200)
    with torch.no_grad():
        exact, found = model(inputs).double(), report.values["data_out_0"]
    error = (exact - found.reshape(exact.shape)).square().sum(0)
    (item,) = report.agreement.outputs.values()
    expected = 10 * math.log10(exact.square().sum() / error.sum())
    assert item.tensor_db == pytest.approx(expected, abs=0.01)
    varying = (exact - exact.mean(0)).square().sum(0)
    expected = 10 * (varying / error).log10().min()
    assert report.agreement.sqnr_db == pytest.approx(float(expected), abs=0.01)
    assert "40 examples on the RTL" in str(report.agreement)
    assert report.bit_exact
    assert not report.is_right
    random = mase_hw.simulate(project, samples=2)
    assert random.agreement.to_dict() == told
    assert random.is_right


def test_a_simulation_of_steps_compares_with_steps_of_the_float_model(tmp_path):
    class Kept(nn.Module):
        """What was given at each place, doubled."""

        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.zeros(1, 5, 3))

        def forward(self, x, position):
            return self.kept.index_copy_(1, position, x) * 2

    sequence = torch.randn(12, 1, 1, 3), torch.arange(12).remainder(5).reshape(12, 1)
    steps = list(zip(*sequence, strict=True))
    graph = mase_hw.quantize(mase_hw.trace(Kept(), steps[0]), entry(12), data=steps)
    assert graph.keeps_state
    assert model_agreement(graph).examples == 12
    project = mase_hw.emit_verilog(graph, output=tmp_path / "net")
    report = mase_hw.simulate(project, sequence)
    assert report.bit_exact
    assert report.agreement.examples == 12
    assert report.agreement.sqnr_db > 50


FACTORY = """
import torch
from tests.flow.test_agreement import Head

def head():
    return Head().eval(), (torch.randn(64, 6),)
"""


def test_commands_tell_it_and_fail_where_it_was_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(FACTORY)
    config = entry(16)["default"]["config"] | {"data_out_width": 16, "data_out_frac_width": 17}
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in config.items())
    (tmp_path / "bad.toml").write_text(
        f'[quantize.linear.config]\n{lines}\n[quantize.default.config]\nname = "fixed"\n'
    )
    found = json_command(monkeypatch, capsys, "preflight", "net.py:head", "--config", "bad.toml")
    assert found["problems"] == []
    assert "against the float model" in found["warnings"][0]["text"]
    entries = json_command(
        monkeypatch, capsys, "emit-verilog", "net.py:head", "-o", "net", "--config", "bad.toml"
    )
    assert entries["warnings"] == found["warnings"]
    assert entries["agreement"]["outputs"]["output"]["sqnr_db"] < 40
    _, table = command(monkeypatch, capsys, "simulate", "net", "--samples", "2")
    line = r"agrees with the float model: \d+\.\d dB.*, 64 examples, inside worst at \w+"
    assert re.search(line, table)
    for arguments in (
        ("preflight", "net.py:head", "--config", "bad.toml"),
        ("simulate", "net", "--samples", "2"),
    ):
        status, text = command(monkeypatch, capsys, *arguments, "--min-sqnr", "60")
        assert status == 1
        assert "60 dB" in text
    assert isinstance(MaseGraph.load(tmp_path / "net" / "model.mase"), MaseGraph)


ORDERS = {
    "topk": lambda x: x.topk(3).indices.sort(-1).values,
    "smallest": lambda x: x.topk(2, 1, largest=False)[1].sort(-1).values,
    "sort": lambda x: x.sort(-1, descending=True).indices,
    "argsort": lambda x: x.argsort(-1),
    "kthvalue": lambda x: x.kthvalue(2).indices,
    "median": lambda x: x.median(-1).indices,
}


class Order(nn.Module):
    """Indices in rows, without an order among those that are taken together."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, x):
        return ORDERS[self.name](x)


def told(model, x):
    """Return the warnings of ties, by node."""
    graph = mase_hw.quantize(mase_hw.trace(model, x))
    notes = [note for note in warnings(graph) if "equal elements" in note.text]
    return {note.node: note.text for note in notes}


@pytest.mark.parametrize("name", ORDERS)
def test_open_rows_are_those_that_a_small_change_decides(name):
    torch.manual_seed(0)
    x = torch.randint(0, 9, (64, 5)).float()
    changes = [0.01 * torch.rand_like(x) for _ in range(40)]
    rows = torch.stack([ORDERS[name](x + change).reshape(64, -1) for change in changes])
    count = int((rows != rows[0]).any(0).any(-1).sum())
    assert 0 < count < 64
    (text,) = told(Order(name), x).values()
    assert text.startswith(f"in {count} of 64 rows")


@pytest.mark.parametrize("name", ORDERS)
def test_rows_of_distinct_elements_are_not_told(name):
    torch.manual_seed(0)
    assert told(Order(name), torch.rand(64, 7).argsort(-1).float()) == {}


def test_elements_that_are_read_without_their_indices_are_not_told():
    class Values(nn.Module):
        def forward(self, x):
            return x.topk(2).values + x.sort(stable=True, dim=-1).indices[:, :2]

    assert told(Values(), torch.zeros(16, 4)) == {}
