"""Whole models of transformers, from tokens or pixels on, exact and in the predicted cycles."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.preflight import preflight
from tests.bench.architectures import spread_weights
from tests.flow.perceptrons import assert_as_predicted

TOKENS, WIDTH, HEADS = 4, 8, 2
SIZES = {
    "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": 1,
    "intermediate_size": 2 * WIDTH, "vocab_size": 20, "max_position_embeddings": 8,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 1}
IMAGES = {
    key: SIZES[key]
    for key in ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size")
}
GPT2 = {"n_embd": WIDTH, "n_head": HEADS, "n_layer": 1, "vocab_size": 20, "n_positions": 8}
# Names of a configuration and a model, and their arguments.
MODELS = {
    "bert": ("BertConfig", SIZES, "BertModel", {"add_pooling_layer": False}),
    "gpt2": ("GPT2Config", {**GPT2, "bos_token_id": 0, "eos_token_id": 0}, "GPT2LMHeadModel", {}),
    "llama": ("LlamaConfig", GROUPED, "LlamaForCausalLM", {}),
    "qwen3": ("Qwen3Config", {**GROUPED, "head_dim": 4}, "Qwen3ForCausalLM", {}),
    "vit": ("ViTConfig", {**IMAGES, "image_size": 8, "patch_size": 4}, "ViTModel",
        {"add_pooling_layer": False}),
}  # fmt: skip


# Models that take a mask, of which zero is padding: their configurations, and how they attend.
T5 = {"d_model": WIDTH, "d_kv": 4, "d_ff": 16, "num_heads": HEADS, "num_layers": 1}
PADDED = {
    "bert": ("BertConfig", SIZES, "BertForSequenceClassification", "sdpa"),
    "llama": ("LlamaConfig", GROUPED, "LlamaModel", "eager"),
    "qwen2": ("Qwen2Config", GROUPED, "Qwen2Model", "sdpa"),
    "t5": ("T5Config", {**T5, "vocab_size": 20}, "T5EncoderModel", "sdpa"),
}


class Model(nn.Module):
    """The first result of a model."""

    def __init__(self, name):
        super().__init__()
        transformers = pytest.importorskip("transformers")
        config, fields, model, options = MODELS[name]
        self.model = getattr(transformers, model)(
            getattr(transformers, config)(**fields), **options
        )
        self.images = name == "vit"

    def forward(self, x):
        if self.images:
            return self.model(pixel_values=x).last_hidden_state
        causal = getattr(self.model.config, "use_cache", None) is not None
        result = self.model(input_ids=x, **({"use_cache": False} if causal else {}))
        return result.logits if hasattr(result, "logits") else result.last_hidden_state


def captured(name):
    torch.manual_seed(0)
    model = Model(name).eval()
    inputs = torch.randn(2, 3, 8, 8) if name == "vit" else torch.randint(0, 20, (2, TOKENS))
    return mase_hw.quantize(mase_hw.trace(model, inputs))


@pytest.mark.first(2)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_hardware(name):
    assert preflight(captured(name)) == []


def captured_with_mask(name):
    """Return a model from transformers, as it comes, that takes a mask, two layers deep."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config, fields, model, attention = PADDED[name]
    config = getattr(transformers, config)(**fields | {"num_hidden_layers": 2})
    config.use_cache = False
    model = getattr(transformers, model)._from_config(config, attn_implementation=attention)
    spread_weights(model)
    mask = torch.tensor([[1] * TOKENS, [1] * (TOKENS - 1) + [0]])
    inputs = {"input_ids": torch.randint(0, 20, (2, TOKENS)), "attention_mask": mask}
    return mase_hw.quantize(mase_hw.trace(model.eval(), inputs))


@pytest.mark.first(1)
@pytest.mark.parametrize("name", PADDED)
def test_a_mask_of_padding_is_an_input(name):
    mg = captured_with_mask(name)
    assert preflight(mg) == []
    assert [node.name for node in mg.inputs] == ["input_ids", "attention_mask"]


@pytest.mark.full
@pytest.mark.parametrize("name", PADDED)
def test_a_padded_model_is_exact_in_the_cycles_that_are_predicted(name, tmp_path):
    mg = captured_with_mask(name)
    assert_as_predicted(mase_hw.emit_verilog(mg, output=tmp_path, parallelism=2), "native")


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_exact_and_takes_the_cycles_that_are_predicted(name, tmp_path):
    mg = captured(name)
    assert_as_predicted(mase_hw.emit_verilog(mg, output=tmp_path, parallelism=2), "native")
