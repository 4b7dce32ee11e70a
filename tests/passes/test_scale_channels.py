"""Scaling and rotation leave a graph's function as it is, and make rounding lose less."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.errors import ConfigError
from mase_hw.graph import trace
from mase_hw.passes.compression.gptq import gptq_transform_pass
from mase_hw.passes.compression.rotate import hadamard, rotate_transform_pass
from mase_hw.passes.compression.scale_channels import scale_channels_transform_pass
from tests.modules import Layers

WIDE = 32
WEIGHT = {"name": "mxint", "width": 3, "block_size": 8}
ENTRY = {"name": "none", **{f"weight_{key}": value for key, value in WEIGHT.items()}}
CONFIG = {"by": "type", "linear": {"config": ENTRY}}


class Block(nn.Module):
    """A gated layer behind a norm with weights, as decoders have it, and one that is shared."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDE)
        self.scale = nn.Parameter(torch.rand(WIDE) + 0.5)
        self.gate, self.up = nn.Linear(WIDE, 48), nn.Linear(WIDE, 48, bias=False)
        self.down = nn.Linear(48, WIDE)
        self.head = nn.Linear(WIDE, 5)

    def forward(self, x):
        h = self.norm(x)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return self.head(x * self.scale)


def block_and_data(seed=0):
    torch.manual_seed(seed)
    model = Block().eval()
    # A few large channels, as transformers have them.
    x = torch.randn(3, 40, WIDE)
    with torch.no_grad():
        model.norm.weight[:3] *= 30
        model.scale[5] *= 20
        for layer in (model.gate, model.up, model.head):
            layer.weight *= torch.exp(torch.randn(layer.weight.shape) * 0.5)
    return model, x


def error(mg, model, x):
    with torch.no_grad():
        return float((mg(x) - model(x)).square().mean())


@pytest.mark.parametrize(
    "given", [{"weight": WEIGHT}, {"strength": 0.5}], ids=["error", "strength"]
)
def test_scaling_keeps_the_function(given):
    model, x = block_and_data()
    mg = canonicalize(trace(model, x))
    found, info = scale_channels_transform_pass(mg, {"data": [x], **given})
    assert set(info["strengths"]) == {"gate, up", "down", "head"}
    assert info["left"] == []
    torch.testing.assert_close(found(x), model(x), rtol=1e-4, atol=1e-4)
    scaled = [name for name, strength in info["strengths"].items() if strength]
    assert scaled
    other = torch.randn(2, 40, WIDE)
    torch.testing.assert_close(found(other), model(other), rtol=1e-4, atol=1e-4)


def test_scaled_weights_are_rounded_with_less_error():
    for seed in range(3):
        model, x = block_and_data(seed)
        mg = canonicalize(trace(model, x))
        found, _ = scale_channels_transform_pass(mg, {"data": [x], "weight": WEIGHT})
        assert error(quantize(found, CONFIG), model, x) < error(quantize(mg, CONFIG), model, x)


def test_strength_moves_outliers_from_inputs_to_weights():
    model, x = block_and_data()
    mg = canonicalize(trace(model, x))
    ranges = []
    for strength in (0.0, 0.5, 1.0):
        graph = mg
        if strength:
            graph, _ = scale_channels_transform_pass(mg, {"data": [x], "strength": strength})
        norm = graph.state_dict()["norm.weight"].abs()
        ranges.append(float(norm.max() / norm.median()))
    assert ranges[0] > ranges[1] > ranges[2]


READ = {
    "input": Layers(
        lambda m, x: (m.head(h := m.norm(x)), h), norm=nn.LayerNorm(8), head=nn.Linear(8, 4)
    ),
    "constant": Layers(
        lambda m, x: (m.head(x * m.scale), torch.tanh(x) * m.scale),
        scale=nn.Parameter(torch.rand(8) + 0.5),
        head=nn.Linear(8, 4),
    ),
}


@pytest.mark.parametrize("what", READ)
def test_what_others_read_is_left_alone(what):
    x = torch.randn(16, 8) * torch.tensor([50.0] + [1.0] * 7)
    model = READ[what].eval()
    found, info = scale_channels_transform_pass(
        canonicalize(trace(model, x)), {"data": [x], "strength": 0.5}
    )
    assert info == {"strengths": {}, "kept": [], "left": ["head"]}
    for left, right in zip(found(x), model(x), strict=True):
        assert torch.equal(left, right)


def test_a_hadamard_matrix_is_orthogonal():
    for size in (2, 16, 64):
        matrix = hadamard(size)
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(size, dtype=torch.float64))
        assert set((matrix * size**0.5).round().flatten().tolist()) == {-1.0, 1.0}


def test_rotation_keeps_the_function_and_spreads_outliers():
    model, x = block_and_data()
    mg = canonicalize(trace(model, x))
    found, info = rotate_transform_pass(mg, {"block": 8})
    assert sorted(len(names) for names in info["rotated"].values()) == [1, 1, 2]
    torch.testing.assert_close(found(x), model(x), rtol=1e-4, atol=1e-4)
    weight = found.state_dict()["gate.weight"]
    blocks = model.gate.weight.reshape(48, -1, 8).norm(dim=-1)
    torch.testing.assert_close(weight.reshape(48, -1, 8).norm(dim=-1), blocks)
    assert rotate_transform_pass(mg, {"block": 32})[1]["left"] == ["down"]


def test_passes_compose():
    model, x = block_and_data()
    mg = canonicalize(trace(model, x))
    plain = error(quantize(mg, CONFIG), model, x)
    mg, _ = scale_channels_transform_pass(mg, {"data": [x], "weight": WEIGHT})
    mg, _ = rotate_transform_pass(mg, {"block": 8})
    names = "gate|up|down|head"
    config = {"by": "regex_name", names: {"config": ENTRY}}
    mg, info = gptq_transform_pass(quantize(mg, config), {"data": [x]})
    assert set(info["layers"]) == {"gate", "up", "down", "head"}
    assert error(mg, model, x) < plain / 2


def test_bad_arguments_are_named():
    model, x = block_and_data()
    mg = canonicalize(trace(model, x))
    for arguments in ({}, {"weight": WEIGHT, "strength": 0.5}, {"strength": 2}, {"alpha": 1}):
        with pytest.raises(ConfigError, match="scal"):
            scale_channels_transform_pass(mg, arguments)
    for arguments in ({"block": 12}, {"block": True}, {"size": 8}):
        with pytest.raises(ConfigError, match="rotat"):
            rotate_transform_pass(mg, arguments)
    quantized = quantize(mg, CONFIG)
    with pytest.raises(ConfigError, match="then quantize"):
        scale_channels_transform_pass(quantized, {"strength": 0.5})
    with pytest.raises(ConfigError, match="then quantize"):
        rotate_transform_pass(quantized)
