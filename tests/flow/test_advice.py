"""What warnings propose was tried: each key, applied, gains what is printed beside it."""

import json
import random
import re

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.advice import GAIN_DB
from mase_hw.emit.flow import canonicalize
from mase_hw.emit.warnings import warnings
from mase_hw.passes.formats.expected_agreement import model_agreement
from mase_hw.training import Trainer
from tests.bench.fidelity_models import entry

PROPOSAL = re.compile(r"give (.*?): (\S.*?) -> (.*)$")
KEYS = re.compile(r"(?:^| and )(\w+) ((?:(?:, )?\w+ = [\w.-]+)+)")
DECIBELS = re.compile(r"^-?\d+\.\d")


def with_keys(config, text):
    """Return a configuration with the keys of a proposal, as a user adds them."""
    config = {name: dict(value) if name != "by" else value for name, value in config.items()}
    for name, keys in KEYS.findall(text):
        fields = dict(config.get(name, config["default"])["config"])
        for key, value in (item.split(" = ") for item in keys.split(", ")):
            fields[key] = json.loads(value)
        config[name] = {"config": fields}
    return config


def proposals(graph):
    """Yield (output, keys, before, after) of every warning that proposes keys."""
    for note in warnings(graph):
        found = PROPOSAL.search(note.text)
        if found:
            (output,) = re.findall(r"output (\w+)", note.text)[:1]
            yield (output, *found.groups())


class Branched(nn.Module):
    """Layers in a row, some of them with what goes round them added, and two outputs."""

    def __init__(self, choose):
        super().__init__()
        kinds = [lambda: nn.Linear(6, 6), nn.Tanh, nn.ReLU, nn.Sigmoid, lambda: nn.LayerNorm(6)]
        self.layers = nn.ModuleList(choose.choice(kinds)() for _ in range(choose.randrange(2, 6)))
        self.added = [choose.random() < 0.3 for _ in self.layers]
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        x = self.first(x)
        for layer, added in zip(self.layers, self.added, strict=True):
            x = x + layer(x) if added else layer(x)
        return self.last(x), x


def spoilt(seed):
    """Return a random model, and a configuration in which one node clips or is too coarse."""
    choose = random.Random(seed)
    torch.manual_seed(seed)
    scale = 10 ** (2 * torch.rand(6) - 1)
    captured = mase_hw.trace(Branched(choose).eval(), torch.randn(64, 6) * scale)
    # By name alone: a key of a node's type is of others too.
    config = entry(choose.choice([8, 12, 16])) | {"by": "name"}
    names = [node.name for node in canonicalize(captured).nodes if node.op == "call_function"]
    width = choose.choice([3, 4, 8])
    fields = {"data_in_width": width, "data_in_frac_width": choose.choice([-3, 1, width + 1])}
    name = choose.choice([name for name in names if "relu" not in name])
    config[name] = {"config": config["default"]["config"] | fields}
    return captured, config


def checked(seed):
    """Return how many keys are proposed for a random model, each of which is applied."""
    captured, config = spoilt(seed)
    graph = mase_hw.quantize(captured, config)
    count = 0
    for output, keys, before, after in proposals(graph):
        mended = model_agreement(mase_hw.quantize(captured, with_keys(config, keys)))
        told = float(DECIBELS.match(before)[0]), float(DECIBELS.match(after)[0])
        assert told[1] >= told[0] + GAIN_DB - 0.1
        figures = {str(item) for item in mended.outputs.values()}
        assert after in figures
        assert mended.outputs[output].sqnr_db >= told[1] - 0.1
        count += 1
    return count


def test_every_proposed_key_gains_what_is_printed():
    assert sum(map(checked, (0, 1, 4, 6))) > 1


@pytest.mark.full
def test_200_proposed_keys_gain_what_is_printed():
    count, seed = 0, 100
    while count < 200:
        count, seed = count + checked(seed), seed + 1


class Pooled(nn.Module):
    """Attentive statistics pooling of features with an offset, whose variance cancels."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.features, self.scores = nn.Conv1d(4, 8, 3, padding=1), nn.Conv1d(8, 8, 1)
        self.last = nn.Linear(16, 5)

    def forward(self, x):
        h = self.features(x).relu() + 300
        weights = self.scores(h).softmax(2)
        mean = (h * weights).sum(2)
        spread = ((h * h * weights).sum(2) - mean * mean).clamp(min=1e-12).sqrt()
        return self.last(torch.cat([mean, spread], 1))


def test_what_no_key_mends_names_the_node_that_loses():
    torch.manual_seed(0)
    graph = mase_hw.quantize(mase_hw.trace(Pooled().eval(), torch.randn(16, 4, 20)), entry(16))
    (text,) = [note.text for note in warnings(graph)]
    (name,) = re.findall(r"no wider format of one node mends it; rounding up to (\w+) takes", text)
    assert name in {node.name for node in graph.nodes if node.op != "get_attr"}
    assert not PROPOSAL.search(text)


def test_advice_is_of_the_weights_that_were_quantised(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    x = torch.randn(256, 8)
    graph = mase_hw.quantize(mase_hw.trace(model, x[:2]), entry(3), data=[x])
    before = [note.text for note in warnings(graph)]
    Trainer(epochs=1).fit(graph, x, torch.randint(0, 4, (256,)))
    project = mase_hw.emit_verilog(graph.eval(), output=tmp_path / "net")
    told = [note.text for note in project.warnings]
    assert not any("examples" in text for text in before + told), told
    assert not any("give" in text for text in told)
    assert project.design.agreement.examples == 256
