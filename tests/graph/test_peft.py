"""Models with adapters of peft: captured as the layers that they are once merged."""

import copy

import peft
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.ops import operator_for
from tests.passes.test_prune_transformers import inputs_of, model_of


def adapted(model, targets, kind=peft.LoraConfig, **options):
    torch.manual_seed(1)
    if kind is peft.LoraConfig:
        options = {"r": 4, "lora_alpha": 8, "init_lora_weights": False, **options}
    model = peft.get_peft_model(model, kind(target_modules=targets, **options))
    with torch.no_grad():
        for item in model.parameters():
            if item.requires_grad:
                item.add_(0.1 * torch.randn_like(item))
    return model.eval()


def operators_of(mg):
    known = [operator_for(node.target) for node in mg.nodes if node.op == "call_function"]
    return sorted(item.name for item in known if item is not None)


CASES = {
    "LoRA": ("BERT", ["query", "value"], {"lora_dropout": 0.1}),
    "DoRA": ("BERT", ["query", "dense"], {"use_dora": True}),
    "embedding": ("BERT", ["word_embeddings", "key"], {}),
    "Conv1D": ("GPT-2", ["c_attn", "c_fc"], {"fan_in_fan_out": True}),
    "RSLoRA": ("Llama", ["q_proj", "down_proj"], {"use_rslora": True}),
    "tied": ("tied Llama", ["lm_head", "o_proj"], {}),
    "whole": ("BERT", ["query"], {"modules_to_save": ["classifier"]}),
    "IA3": (
        "Llama",
        ["k_proj", "v_proj", "down_proj"],
        {"kind": peft.IA3Config, "feedforward_modules": ["down_proj"], "init_ia3_weights": False},
    ),
    "LoHa": ("BERT", ["query"], {"kind": peft.LoHaConfig, "r": 4, "init_weights": False}),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("case", CASES)
def test_adapters_are_part_of_the_weights(case):
    name, targets, options = CASES[case]
    base, inputs = model_of(name), inputs_of(name, 3)
    plain = canonicalize(mase_hw.trace(copy.deepcopy(base), inputs))
    model = adapted(base, targets, **options)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    mg = mase_hw.trace(model, inputs)
    assert operators_of(canonicalize(mg)) == operators_of(plain)
    other = inputs_of(name, 5)
    with torch.no_grad():
        expected, found = model(**other).logits, mg(**other)["logits"]
    scale = float(expected.abs().max())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5 * max(1.0, scale))
    assert not torch.allclose(found, plain(**other)["logits"], rtol=1e-5, atol=1e-5)
    # The model is what it was, bit for bit, and its adapters are apart.
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in state.items())
    merged = [item.merged_adapters for item in model.modules() if hasattr(item, "merged_adapters")]
    assert merged
    assert not any(merged)
    assert any(item.requires_grad for item in mg.parameters())


@pytest.mark.first(1)
@pytest.mark.parametrize("how", ["merged", "unloaded", "disabled", "second", "both"])
def test_adapters_in_other_states(how):
    base, inputs = model_of("BERT"), inputs_of("BERT", 3)
    model = adapted(base, ["query", "value"])
    config = peft.LoraConfig(r=2, target_modules=["value"], init_lora_weights=False)
    model.add_adapter("second", config)
    if how == "merged":
        model.merge_adapter()
    elif how == "unloaded":
        model = model.merge_and_unload()
    elif how == "disabled":
        model.base_model.disable_adapter_layers()
    elif how == "second":
        model.set_adapter("second")
    else:
        model.base_model.set_adapter(["default", "second"])
    mg = mase_hw.trace(model.eval(), inputs)
    assert "mul" not in operators_of(canonicalize(mg))
    with torch.no_grad():
        expected = model(**inputs).logits
    torch.testing.assert_close(mg(**inputs)["logits"], expected, rtol=1e-5, atol=1e-4)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def test_hardware_has_one_layer(tmp_path):
    model = adapted(Mlp(), ["first", "second"])
    project = mase_hw.emit_verilog(
        mase_hw.trace(model, torch.randn(4, 6)), output=tmp_path / "net", parallelism=2
    )
    modules = [item.operator for item in project.design.nodes]
    assert modules.count("linear") == 2
