"""Adapters: few parameters train, and the fused graph computes what the adapted one does."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.graph import trace
from mase_hw.models.hub import load_pretrained
from mase_hw.passes.compression.lora import (
    fuse_lora_weights_transform_pass,
    insert_lora_adapter_transform_pass,
)
from mase_hw.training import Trainer

INPUTS = torch.randn(40, 10, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(40) % 3


def graph():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3, bias=False))
    return trace(model, INPUTS[:4], name="tiny")


def test_the_adapters_alone_are_trained_and_fused_into_the_weights():
    mg = graph()
    adapted, info = insert_lora_adapter_transform_pass(mg, {"rank": 2})
    everything = 10 * 16 + 16 + 16 * 3
    assert info["trainable"] == [everything, 2 * (10 + 16) + 2 * (16 + 3)]
    assert info["parameters"] == everything + info["trainable"][1]
    assert info["nodes"] == ["linear_0", "linear_2"]
    # Fresh adapters change nothing.
    assert torch.equal(adapted(INPUTS), mg(INPUTS))
    frozen = [item.clone() for item in adapted.model.parameters() if not item.requires_grad]
    Trainer(epochs=4, learning_rate=3e-2).fit(adapted.model, INPUTS, LABELS)
    after = [item for item in adapted.model.parameters() if not item.requires_grad]
    assert all(torch.equal(one, other) for one, other in zip(frozen, after, strict=True))
    assert not torch.allclose(adapted(INPUTS), mg(INPUTS), atol=1e-2)
    fused, info = fuse_lora_weights_transform_pass(adapted)
    assert info == {"fused": ["linear_0", "linear_2"]}
    assert torch.allclose(fused(INPUTS), adapted(INPUTS), rtol=1e-5, atol=1e-6)
    assert {node.name for node in fused.nodes} == {node.name for node in mg.nodes}
    assert fused.model.state_dict().keys() == mg.model.state_dict().keys()
    assert all(item.requires_grad for item in fused.model.parameters())


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("linear_[0-9]", ["linear_0", "linear_2"]),
        ([".*2"], ["linear_2"]),
        (["linear_2", "linear_0"], ["linear_0", "linear_2"]),
    ],
)
def test_layers_are_chosen_by_name_or_expression(nodes, names):
    _, info = insert_lora_adapter_transform_pass(graph(), {"nodes": nodes})
    assert info["nodes"] == names


def test_a_fused_graph_is_saved_and_quantized(tmp_path):
    adapted, _ = insert_lora_adapter_transform_pass(graph(), {"rank": 2})
    Trainer(epochs=1).fit(adapted.model, INPUTS, LABELS)
    fused, _ = fuse_lora_weights_transform_pass(adapted)
    loaded = mase_hw.MaseGraph.load(fused.save(tmp_path / "fused.mase"))
    assert torch.equal(loaded(INPUTS), fused(INPUTS))
    assert mase_hw.quantize(loaded).is_quantized


def test_what_is_frozen_stays_frozen_and_a_classifier_trains_whole():
    mg = graph()
    first = mg.constant(mg.node("linear_0").args[1])
    first.requires_grad_(False)
    adapted, info = insert_lora_adapter_transform_pass(
        mg, {"rank": 1, "nodes": ["linear_0"], "whole": ["linear_2"]}
    )
    assert info["trainable"] == [16 + 48, 26 + 48]
    fused, _ = fuse_lora_weights_transform_pass(adapted)
    flags = {name: item.requires_grad for name, item in fused.model.named_parameters()}
    assert flags == {"0.weight": False, "0.bias": True, "2.weight": True}


def test_bert_with_adapters_is_fused_within_rounding():
    pretrained = load_pretrained("bert-tiny")
    inputs = pretrained.inputs(2, 16)
    mg = trace(pretrained.module, inputs, name="bert")
    adapted, info = insert_lora_adapter_transform_pass(mg, {"rank": 4})
    before, after = info["trainable"]
    assert before > 4_000_000
    # The weight of the decoder is tied to the embeddings and has their name.
    shapes = [mg.constant(mg.node(name).args[1]).shape for name in info["nodes"]]
    assert after == 4 * sum(map(sum, shapes)) < 0.04 * before
    with torch.no_grad():
        for name, item in adapted.model.named_parameters():
            if "lora_B" in name:
                item.normal_(std=0.02)
        logits = adapted(**inputs)["logits"]
        fused, _ = fuse_lora_weights_transform_pass(adapted)
        found = fused(**inputs)["logits"]
        plain = mg(**inputs)["logits"]
    scale = logits.abs().max()
    assert (found - logits).abs().max() < 1e-5 * scale
    assert (plain - logits).abs().max() > 1e-2 * scale


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 0}, "rank is 0; allowed: a number from 1"),
        ({"drop_rate": 1.0}, r"drop_rate is 1\.0"),
        ({"nodes": ["relu_1"]}, "'relu_1' cannot have any"),
        ({"nodes": ["linear_("]}, r"'linear_\(' is no name or expression"),
        ({"whole": ["relu_1"]}, "relu_1 have no parameters"),
        ({"ranks": 2}, "did you mean rank"),
    ],
)
def test_bad_adapters_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        insert_lora_adapter_transform_pass(graph(), arguments)


def test_the_order_is_kept():
    with pytest.raises(ConfigError, match="none to fuse"):
        fuse_lora_weights_transform_pass(graph())
    with pytest.raises(ConfigError, match="then quantize"):
        insert_lora_adapter_transform_pass(mase_hw.quantize(graph()))
