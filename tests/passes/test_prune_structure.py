"""Structured pruning: modules shrink, what follows fits, and the hardware is smaller."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError, MaseError
from mase_hw.graph import MaseGraph, trace
from mase_hw.graph.masks import hold_masks
from mase_hw.passes.compression import _channels
from mase_hw.passes.compression.prune import prune_transform_pass
from mase_hw.passes.compression.prune_structure import prune_structure_transform_pass
from mase_hw.training import Trainer


class Block(nn.Module):
    """Convolutions with batch norm around a residual sum, a depthwise one, and a flattened end."""

    def __init__(self):
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.second_norm = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pool = nn.MaxPool2d(2)
        self.hidden, self.scores = nn.Linear(8 * 9, 10), nn.Linear(10, 4)

    def forward(self, x):
        x = torch.relu(self.first_norm(self.first(x)))
        x = torch.relu(x + self.second_norm(self.second(x)))
        x = self.pool(nn.functional.hardsigmoid(self.depthwise(x)))
        return self.scores(torch.tanh(self.hidden(x.flatten(1))))


class Attention(nn.Module):
    """Four heads of four, and a feed-forward layer, between residual sums and a norm."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.o, self.norm = nn.Linear(16, 16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 24), nn.Linear(24, 16)

    def heads(self, layer, x):
        return layer(x).view(x.shape[0], x.shape[1], 4, 4).transpose(1, 2)

    def forward(self, x):
        parts = (self.heads(layer, x) for layer in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(*parts)
        x = self.norm(x + self.o(y.transpose(1, 2).reshape(x.shape)))
        return x + self.down(nn.functional.gelu(self.up(x)))


def graph(model, *shape):
    torch.manual_seed(0)
    built = model()
    for module in built.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.normal_(module.weight)
    return trace(built, torch.randn(shape), name="net")


def shapes(mg):
    return {
        node.name: list(mg.constant(node).shape)
        for node in mg.nodes
        if node.op == "get_attr" and mg.constant(node).dim() > 1
    }


@pytest.mark.parametrize("folded", [False, True])
def test_what_follows_a_channel_shrinks_with_it(folded):
    mg = graph(Block, 2, 2, 6, 6)
    mg = canonicalize(mg) if folded else mg
    smaller, info = prune_structure_transform_pass(mg, {"sparsity": 0.5})
    assert info["channels"] == {"first": [8, 4], "second": [8, 4], "hidden": [10, 5]}
    found = list(shapes(smaller).values())
    assert sorted(found) == sorted([[4, 2, 3, 3], [4, 4, 3, 3], [4, 1, 3, 3], [5, 36], [4, 5]])
    assert info["parameters"][1] == sum(item.numel() for item in smaller.model.parameters())
    assert info["parameters"][1] < 0.4 * info["parameters"][0]
    assert smaller(torch.randn(7, 2, 6, 6)).shape == (7, 4)


def test_heads_leave_whole():
    mg = graph(Attention, 2, 5, 16)
    smaller, info = prune_structure_transform_pass(mg, {"sparsity": 0.5})
    assert info["channels"] == {"q": [4, 2], "k": [4, 2], "v": [4, 2], "up": [24, 12]}
    found = shapes(smaller)
    assert (found["q_weight"], found["o_weight"]) == ([8, 16], [16, 8])
    assert (found["up_weight"], found["down_weight"]) == ([12, 16], [16, 12])
    # The two heads of least magnitude are those that left.
    weights = [mg.constant(mg.node(f"{name}_weight")).detach() for name in "qkv"]
    strength = sum(item.abs().reshape(4, -1).mean(dim=1) for item in weights)
    kept = strength.topk(2).indices.sort().values
    expected = weights[0].reshape(4, 4, 16)[kept].reshape(8, 16)
    assert torch.equal(smaller.constant(smaller.node("q_weight")), expected)


def test_the_smaller_graph_computes_what_the_large_one_does_without_the_channels():
    mg = graph(Attention, 2, 5, 16)
    smaller, _ = prune_structure_transform_pass(mg, {"sparsity": 0.25, "nodes": ["up"]})
    rows = smaller.constant(smaller.node("up_weight"))
    old = mg.copy()
    weight = old.constant(old.node("up_weight"))
    lost = [not any(torch.equal(row, other) for other in rows) for row in weight]
    assert sum(lost) == 6
    with torch.no_grad():
        old.constant(old.node("down_weight"))[:, lost] = 0.0
    inputs = torch.randn(3, 5, 16)
    assert torch.allclose(smaller(inputs), old(inputs), atol=1e-6)


def test_criteria_and_scopes():
    mg = graph(Block, 2, 2, 6, 6)
    arguments = {"sparsity": 0.5, "criterion": "random"}
    one, again, other = (
        prune_structure_transform_pass(mg, arguments | {"seed": seed})[0] for seed in (1, 1, 2)
    )
    inputs = torch.randn(4, 2, 6, 6)
    assert torch.equal(one(inputs), again(inputs))
    assert not torch.equal(one(inputs), other(inputs))
    _, info = prune_structure_transform_pass(mg, {"sparsity": 0.6, "scope": "global"})
    left = {name: after for name, (_, after) in info["channels"].items()}
    # Eight groups of the residual sum, and ten hidden features: eleven of eighteen leave.
    assert left["first"] == left["second"]
    assert left["first"] + left["hidden"] == 18 - 11
    _, info = prune_structure_transform_pass(mg, {"sparsity": 0.99})
    assert all(after == 1 for _, after in info["channels"].values())


def test_masks_stay_with_what_is_left():
    mg, _ = prune_transform_pass(graph(Block, 2, 2, 6, 6), {"sparsity": 0.5})
    smaller, _ = prune_structure_transform_pass(mg, {"sparsity": 0.5})
    weight = smaller.constant(smaller.node("hidden_weight"))
    zeros = weight.detach() == 0
    assert 0.2 < float(zeros.double().mean()) < 0.8
    before = weight.detach().clone()
    trained = smaller.copy()
    hold_masks(trained)
    Trainer(epochs=2, learning_rate=1e-2).fit(
        trained.model, torch.randn(12, 2, 6, 6), torch.arange(12) % 4
    )
    after = trained.constant(trained.node("hidden_weight")).detach()
    assert torch.equal(after == 0, zeros)
    assert not torch.equal(after, before)


def test_the_hardware_of_a_smaller_graph_is_smaller(tmp_path):
    mg = graph(Block, 4, 2, 6, 6)
    smaller = mase_hw.prune(mg, structured=True, sparsity=0.5)
    saved = MaseGraph.load(smaller.save(tmp_path / "small.mase"))
    large, small = (
        mase_hw.emit_verilog(item, output=tmp_path / name, parallelism=1)
        for name, item in (("large", mg), ("small", saved))
    )
    work = [sum(node.work_cycles for node in item.design.nodes) for item in (large, small)]
    assert work[1] < 0.6 * work[0]
    bits = [
        sum(
            item.width_bits * len(item.words)
            for item in made.design.memories
            if "weight" in item.name
        )
        for made in (large, small)
    ]
    assert 0 < bits[1] < 0.4 * bits[0]


class Sum(nn.Module):
    """Linear layers around a residual sum."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 8)
        self.scores = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.scores(torch.relu(x + self.second(x)))


@pytest.mark.full
def test_the_hardware_of_a_smaller_graph_is_bit_exact(tmp_path):
    smaller = mase_hw.prune(graph(Sum, 16, 6), structured=True, sparsity=0.5)
    project = mase_hw.emit_verilog(smaller, output=tmp_path / "project", parallelism=4)
    assert sum(node.multipliers for node in project.design.nodes) == 4 * 4 + 4 * 4 + 4 * 3
    assert project.design.interval_cycles == 2
    report = mase_hw.simulate(project, torch.randn(50, 6))
    assert report.bit_exact, report.first_mismatch


class Recurrent(nn.Module):
    """Two recurrent layers, with all results or the last one alone."""

    def __init__(self, kind, hidden, both, last):
        super().__init__()
        self.last = last
        self.core = getattr(nn, kind)(6, hidden, 2, batch_first=True, bidirectional=both)
        self.scores = nn.Linear(hidden * (1 + both), 3)

    def forward(self, x):
        y, _ = self.core(x)
        return self.scores(y[:, -1] if self.last else y)


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize(("both", "last"), [(False, True), (True, False)])
def test_hidden_units_of_recurrent_layers_leave_with_their_gates(kind, both, last):
    """The oracle is torch's own layer of half the width, with the weights that are left."""
    torch.manual_seed(0)
    model = Recurrent(kind, 8, both, last)
    with torch.no_grad():
        for item in model.parameters():
            item.mul_(10 ** (2 * torch.rand(item.shape) - 1))
    mg = trace(model, torch.randn(2, 4, 6))
    smaller, info = prune_structure_transform_pass(mg, {"sparsity": 0.5})
    assert all(after * 2 == before for before, after in info["channels"].values())
    narrow = Recurrent(kind, 4, both, last)
    narrow.load_state_dict(smaller.state_dict())
    inputs = torch.randn(5, 4, 6)
    torch.testing.assert_close(smaller(inputs), narrow(inputs), rtol=1e-4, atol=1e-5)
    # Rows of every gate, and the same units of all of them.
    gates = model.core.weight_ih_l0.detach().unflatten(0, (-1, 8))
    left = narrow.core.weight_ih_l0.detach().unflatten(0, (-1, 4))
    units = [next(i for i in range(8) if torch.equal(gates[0, i], row)) for row in left[0]]
    assert torch.equal(gates[:, units], left)


class Spelled(nn.Module):
    """Weights that a model takes parts of, turns over, or divides into groups."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.first = nn.Parameter(torch.randn(16, 6))
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.grouped = nn.Conv1d(4, 8, 3, padding=1, groups=2)
        self.second = nn.Parameter(torch.randn(3, 16 if how != "groups" else 8))

    def forward(self, x):
        if self.how == "groups":
            y = torch.relu(self.grouped(x)).mean(-1)
        else:
            y = torch.relu(x @ self.first.T)
        if self.how == "attention":
            y = self.attention(y, y.flip(1), y * y)[0]
        return y @ self.second.t()


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("turned", {"matmul": [16, 8]}),
        ("attention", {"attention_linear": [4, 2], "attention_linear_2": [4, 2]}),
        ("groups", {"grouped": [8, 4]}),
    ],
)
def test_weights_are_followed_to_their_parameters(how, expected):
    torch.manual_seed(0)
    mg = trace(Spelled(how), torch.randn(2, 4, 6))
    smaller, info = prune_structure_transform_pass(mg, {"sparsity": 0.5})
    assert info["channels"].items() >= expected.items()
    assert info["parameters"][1] < 0.7 * info["parameters"][0]
    assert smaller(torch.randn(5, 4, 6)).shape[-1] == 3


class Norms(nn.Module):
    """A softmax over features, an input that is added, and an output: nothing may leave."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        x = x + self.a(x)
        return self.c(torch.softmax(self.b(x), -1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"sparsity": 0.5},
            r"no channels that can leave: add \(at .*x \+ self.a.*needs those of a",
        ),
        ({"sparsity": 1.0}, "sparsity is 1.0; allowed: from 0 to below 1"),
        ({"sparsity": -0.5}, "sparsity is -0.5"),
        ({}, "sparsity is None"),
        ({"sparsity": 0.5, "nodes": ["a"]}, "channels of 'a' cannot leave"),
        ({"sparsity": 0.5, "criterion": "l3"}, "criterion is 'l3'"),
    ],
)
def test_bad_pruning_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        prune_structure_transform_pass(graph(Norms, 2, 6), arguments)


def test_a_quantized_graph_is_refused():
    mg = mase_hw.quantize(graph(Block, 2, 2, 6, 6))
    with pytest.raises(ConfigError, match="prune, then quantize"):
        prune_structure_transform_pass(mg, {"sparsity": 0.5})


def test_a_dependence_that_is_missed_is_found_out(monkeypatch):
    """The result is compared with the old graph: a broken analysis cannot pass."""

    def broken(self, labels, node):
        """Hold nothing."""

    monkeypatch.setattr(_channels.Channels, "fix", broken)
    with pytest.raises(MaseError):
        prune_structure_transform_pass(graph(Norms, 2, 6), {"sparsity": 0.5})
