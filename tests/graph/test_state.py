"""A state holds all that decides numbers: it gives the same ones, or is refused by name."""

import copy
import io

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

import mase_hw
from mase_hw.errors import DataError
from mase_hw.formats import formats
from mase_hw.graph import trace
from mase_hw.graph.state import KEY
from mase_hw.graph.weights import load_weights
from mase_hw.passes.compression.lora import insert_lora_adapter_transform_pass
from mase_hw.passes.compression.prune import prune_transform_pass
from mase_hw.training import Trainer
from tests.bench.fidelity_training import RECIPES, round_trip

FIXED = {"name": "fixed", "data_in_width": 6, "weight_width": 5, "bias_width": 8}
SCALED = {"name": "scaled_integer", "data_in_width": 6, "weight_width": 4, "weight_channel_axis": 0}
# Every recipe, and every kind of format.
QUICK = [(recipe, "fixed") for recipe in RECIPES]
QUICK += [(next(iter(RECIPES)), word) for word in ("scaled_integer", "mxint", "ternary")]


class Branches(nn.Module):
    """Two layers read one stream and are joined: where casts are needed depends on the ranges."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.enter, self.left = nn.Linear(8, 8), nn.Linear(8, 8)
        self.right, self.leave = nn.Linear(8, 8), nn.Linear(8, 3)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(4.0 ** torch.randint(-1, 2, (1,)))

    def forward(self, x):
        x = torch.relu(self.enter(x))
        left = self.left(x)
        joined = torch.cat([left[:, :4], torch.relu(self.right(x))[:, 4:]], 1)
        return self.leave(joined + left - x)


X = torch.randn(60, 8, generator=torch.Generator().manual_seed(5))
LABELS = X[:, :3].argmax(1)


def quantized(seed, entry=FIXED, prune=False):
    mg = trace(Branches(seed), X[:10], name="branches")
    if prune:
        mg, _ = prune_transform_pass(mg, {"sparsity": 0.5})
    return mase_hw.quantize(mg, {"default": {"config": entry}}, data=[X * 2.0**seed])


def trained(seed, **options):
    mg = quantized(seed, **options)
    Trainer(epochs=1, batch_size=20).fit(mg, X, LABELS)
    return mg


CASES = [(recipe, word) for recipe in RECIPES for word in formats()]


@pytest.mark.parametrize(
    ("recipe", "word"),
    [pytest.param(*case, marks=[pytest.mark.full] * (case not in QUICK)) for case in CASES],
)
def test_states_of_all_formats_give_the_same_numbers(recipe, word):
    assert round_trip(recipe, word) is not False


@pytest.mark.parametrize("entry", [FIXED, SCALED], ids=["fixed", "per channel"])
@pytest.mark.parametrize("seed", range(4))
def test_casts_are_those_of_the_state(entry, seed):
    first, second = trained(seed, entry=entry), quantized(seed + 1, entry=entry)
    assert not torch.equal(second(X), first(X))
    second.load_state_dict(first.state_dict())
    assert str(second) == str(first)
    assert torch.equal(second(X), first(X))
    assert torch.equal(second.state_dict()[KEY], first.state_dict()[KEY])
    again = copy.deepcopy(second)
    assert torch.equal(again(X), first(X))
    Trainer(epochs=1, batch_size=20).fit(again, X, LABELS)


def test_casts_that_differ_are_tried():
    names = [{node.name for node in quantized(seed).nodes} for seed in range(5)]
    assert len({frozenset(item) for item in names}) > 1


def test_what_is_emitted_is_what_was_trained(tmp_path):
    first, second = trained(0), quantized(1)
    second.load_state_dict(first.state_dict())
    texts = []
    for name, mg in (("first", first), ("second", second)):
        project = mase_hw.emit_verilog(mg, output=tmp_path / name)
        texts.append((project.folder / "top.sv").read_text())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("form", ["torch", "safetensors"])
def test_files_of_tensors_hold_a_state(form):
    first, second = trained(0), quantized(1)
    if form == "torch":
        buffer = io.BytesIO()
        torch.save(first.state_dict(), buffer)
        buffer.seek(0)
        state = torch.load(buffer, weights_only=True)
    else:
        state = load(save(first.state_dict()))
    second.load_state_dict(state)
    assert torch.equal(second(X), first(X))


def test_a_graph_inside_a_module_has_its_state_there():
    first, second = (nn.ModuleDict({"part": item}) for item in (trained(0), quantized(1)))
    second.load_state_dict(first.state_dict())
    assert f"part.{KEY}" in first.state_dict()
    assert torch.equal(second["part"](X), first["part"](X))


REFUSED = {
    "width": ({**FIXED, "weight_width": 4}, r"leave\.weight: fixed, width 4 here, 5 in the state"),
    "format": (SCALED, r"enter\.data_in_0: scaled_integer here, fixed in the state"),
    "result": (
        {**FIXED, "data_out_width": 12},
        r"enter\.data_out_0: fixed, width 12 here, \d+ in the state",
    ),
    "rounding": ({**FIXED, "data_in_rounding": "floor"}, "rounding floor here, nearest_even in"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_state_of_another_recipe_is_refused(case):
    entry, message = REFUSED[case]
    other = quantized(1, entry=entry)
    before = {key: value.clone() for key, value in other.state_dict().items()}
    for strict in (True, False):
        with pytest.raises(DataError, match=message):
            other.load_state_dict(trained(0).state_dict(), strict=strict)
    assert all(torch.equal(value, before[key]) for key, value in other.state_dict().items())


def test_granularity_options_and_layers_are_compared():
    whole = quantized(1, entry={**SCALED, "weight_channel_axis": None})
    with pytest.raises(DataError, match="channel_axis None here, 0 in the state"):
        whole.load_state_dict(quantized(0, entry=SCALED).state_dict())

    class Scaled(Branches):
        def forward(self, x):
            return super().forward(x) * 0.5

    config = {"default": {"config": FIXED}}
    scaled = mase_hw.quantize(trace(Scaled(1), X[:10], name="branches"), config)
    with pytest.raises(DataError, match="mul is in the graph alone"):
        scaled.load_state_dict(quantized(0).state_dict())
    with pytest.raises(DataError, match="mul is in the state alone"):
        quantized(0).load_state_dict(scaled.state_dict())


def test_weights_alone_are_taken_when_asked_for():
    first, second = trained(0), quantized(1, entry=SCALED)
    state = {key: value for key, value in first.state_dict().items() if key != KEY}
    with pytest.raises(RuntimeError, match=r"Missing key.*number_formats"):
        second.load_state_dict(state)
    second.load_state_dict(state, strict=False)
    assert torch.equal(second.get_parameter("leave.weight"), first.get_parameter("leave.weight"))
    plain = trace(Branches(3), X[:10])
    with pytest.raises(DataError, match=r"of a graph with number formats.* branches has none"):
        plain.load_state_dict(first.state_dict())


def test_constants_that_were_expanded_are_loaded():
    class Masked(nn.Module):
        def __init__(self, fill):
            super().__init__()
            self.layer, self.fill = nn.Linear(8, 3), fill

        def forward(self, x):
            return self.layer(x) * torch.full((1, 1), self.fill).expand(1, 3)

    made = (mase_hw.quantize(trace(Masked(fill), X[:10], name="net")) for fill in (0.5, 0.25))
    first, second = made
    assert any("folded" in key for key in first.state_dict())
    second.load_state_dict(first.state_dict())
    assert torch.equal(second(X), first(X))


def test_a_graph_in_float_takes_the_state_of_its_model():
    model, mg = Branches(1).eval(), trace(Branches(0), X[:10])
    assert mg.state_dict().keys() == model.state_dict().keys()
    mg.load_state_dict(model.state_dict())
    assert torch.equal(mg(X), model(X))


def test_masks_go_with_the_state_and_hold():
    first, second = trained(0, prune=True), quantized(1, prune=True)
    zeros = first.get_parameter("left.weight") == 0
    second.load_state_dict(first.state_dict())
    Trainer(epochs=2, batch_size=20, learning_rate=1e-2).fit(second, X, LABELS)
    assert torch.equal(second.get_parameter("left.weight") == 0, zeros)
    with pytest.raises(DataError, match=r"left_weight is pruned in the state alone"):
        quantized(1).load_state_dict(first.state_dict())


def test_adapters_of_another_scale_are_refused():
    def adapted(seed, alpha):
        mg = trace(Branches(seed), X[:10], name="branches")
        return insert_lora_adapter_transform_pass(mg, {"rank": 2, "alpha": alpha})[0]

    first = adapted(0, 4)
    Trainer(epochs=1, batch_size=20, learning_rate=1e-2).fit(first, X, LABELS)
    same, other = adapted(1, 4), adapted(1, 8)
    same.load_state_dict(first.state_dict())
    assert torch.equal(same(X), first(X))
    with pytest.raises(DataError, match=r"enter: .*'alpha': 8.* here, .*'alpha': 4.* in the state"):
        other.load_state_dict(first.state_dict())


def test_damaged_entries_are_said():
    mg = quantized(0)
    state = mg.state_dict()
    text = bytes(state[KEY].tolist())
    damages = (
        -state[KEY],
        state[KEY].float(),
        torch.frombuffer(bytearray(text.replace(b'"name"', b'"nome"')), dtype=torch.uint8),
        torch.frombuffer(bytearray(text.replace(b'"width": 6', b'"width": 99')), dtype=torch.uint8),
        torch.frombuffer(bytearray(b"[1]"), dtype=torch.uint8),
    )
    for damage in damages:
        with pytest.raises(DataError, match="is damaged"):
            mg.load_state_dict({**state, KEY: damage})


def test_files_of_weights_bring_the_formats(tmp_path, caplog):
    first, path = trained(0), tmp_path / "state.pt"
    torch.save(first.state_dict(), path)
    assert torch.equal(load_weights(quantized(1), path)(X), first(X))
    with pytest.raises(DataError, match="another recipe"):
        load_weights(quantized(1, entry=SCALED), path)
    plain = {key: value for key, value in first.state_dict().items() if key != KEY}
    torch.save(plain, path.with_name("plain.pt"))
    with pytest.raises(DataError, match="holds no number formats"):
        load_weights(quantized(1), path.with_name("plain.pt"))
    load_weights(trace(Branches(1), X[:10]), path)
    assert "its number formats are left out" in caplog.text
