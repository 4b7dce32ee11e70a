"""Integers with a real scale for each group of a row, rounded to nearest and by GPTQ."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats.scaled_integer import ScaledInteger
from mase_hw.passes import gptq_transform_pass, scale_channels_transform_pass


@pytest.mark.parametrize("group", [8, 16, 32])
@pytest.mark.parametrize("symmetric", [True, False])
def test_each_group_has_the_scale_of_its_values(group, symmetric):
    torch.manual_seed(0)
    weight = torch.randn(6, 32)
    number = ScaledInteger.fit_values(weight, width=4, group_size=group, symmetric=symmetric)
    rows = weight.double().reshape(-1, group)
    low, high = (-7, 7) if symmetric else (-8, 7)
    least, most = rows.amin(1, keepdim=True).clamp(max=0), rows.amax(1, keepdim=True).clamp(min=0)
    scale = torch.maximum(-least, most) / 7 if symmetric else (most - least) / 15
    point = 0 if symmetric else (low - (least / scale).round()).clamp(low, high)
    codes = ((rows / scale).round() + point).clamp(low, high)
    assert torch.equal(number.encode(weight), codes.reshape(6, 32).long())
    wanted = ((codes - point) * scale).reshape(6, 32)
    assert torch.allclose(number.round_values(weight).double(), wanted, atol=1e-6)
    assert torch.equal(number.round_values(weight), number.decode(number.encode(weight)).float())
    extra = 32 if symmetric else 36
    assert number.bits_per_element == 4 + extra / group


def test_rows_that_groups_do_not_divide_and_hardware_are_refused():
    with pytest.raises(FormatError, match="needs rows that 5 divides"):
        ScaledInteger.fit_values(torch.randn(4, 8), width=4, group_size=5)
    with pytest.raises(FormatError, match="not both"):
        ScaledInteger(4, group_size=4, channel_axis=0)
    entry = {"name": "scaled_integer", "data_in_width": 8, "weight_width": 4, "bias_width": 8}
    config = {"by": "type", "linear": {"config": {**entry, "weight_group_size": 8}}}
    mg = mase_hw.quantize(
        mase_hw.trace(nn.Sequential(nn.Linear(16, 4)), torch.randn(8, 16)), config
    )
    with pytest.raises(UnsupportedError, match="weight has 8 scales"):
        mase_hw.emit_verilog(mg, output="build/none")


def test_methods_lose_less_than_rounding_to_nearest():
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
    with torch.no_grad():
        model[0].weight[:2] *= 20
    data = [torch.randn(16, 32) for _ in range(8)]
    weight = {"name": "scaled_integer", "width": 4, "group_size": 16}
    entry = {"name": "none", **{f"weight_{key}": value for key, value in weight.items()}}
    config = {"by": "name", **{name: {"config": entry} for name in ("linear_1", "linear_3")}}
    graph = canonicalize(mase_hw.trace(model, data[0]))
    nearest = mase_hw.quantize(graph, config)
    scaled, _ = scale_channels_transform_pass(graph, {"data": data, "weight": weight})
    fitted, info = gptq_transform_pass(nearest, {"data": data})
    assert info["kept"] == []
    x = torch.randn(64, 32)
    errors = [
        float((found(x) - model(x)).detach().square().mean())
        for found in (nearest, mase_hw.quantize(scaled, config), fitted)
    ]
    assert max(errors[1:]) < 0.8 * errors[0]


@pytest.mark.full
@pytest.mark.parametrize("group", [32, 128])
def test_groups_lose_no_more_than_torchaos_on_a_language_model(group):
    quantization = pytest.importorskip("torchao.quantization")
    from torchao.quantization.granularity import PerGroup

    from mase_hw.models.hub import load_pretrained

    module = load_pretrained("smollm2-135m").module
    for name in ("model.layers.0.self_attn.o_proj", "model.layers.5.mlp.down_proj"):
        layer = module.get_submodule(name)
        weight = layer.weight.detach().float()[:, : layer.in_features // 128 * 128].contiguous()
        other = nn.Sequential(nn.Linear(weight.shape[1], len(weight), bias=False))
        other[0].weight.data = weight.clone()
        settings = quantization.IntxWeightOnlyConfig(
            weight_dtype=torch.int4, granularity=PerGroup(group)
        )
        quantization.quantize_(other, settings)
        theirs = other[0].weight.dequantize() - weight
        number = ScaledInteger.fit_values(weight, width=4, group_size=group)
        ours = number.round_values(weight) - weight
        assert ours.norm() <= 1.01 * theirs.norm()
