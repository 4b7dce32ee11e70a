"""Architectures of transformers, captured and with nothing quantised: bit for bit the modules."""

import pytest
import torch
import transformers
from torch.utils._pytree import tree_leaves

from mase_hw.emit.flow import quantize
from mase_hw.graph import trace
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes.configuration import FLOAT
from tests._close import assert_same
from tests.bench.architectures import spread_weights

TEXT = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 50,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
DECODER = {**TEXT, "use_cache": False, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {**DECODER, "num_key_value_heads": 2}
IMAGE = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 16,
    "patch_size": 8,
}
TOKENS = {"n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 32, "vocab_size": 50}
SHORT = {"use_cache": False, "bos_token_id": 1, "eos_token_id": 2}
ARCHITECTURES = {
    "BertModel": TEXT,
    "DistilBertModel": {"dim": 32, "n_layers": 1, "n_heads": 4, "hidden_dim": 64, "vocab_size": 50},
    "RobertaModel": {**TEXT, "pad_token_id": 1},
    "AlbertModel": {**TEXT, "embedding_size": 16},
    "ElectraModel": {**TEXT, "embedding_size": 16},
    "GPT2LMHeadModel": {**TOKENS, **SHORT},
    "GPTNeoXModel": DECODER,
    "LlamaForCausalLM": GROUPED,
    "MistralModel": {**GROUPED, "sliding_window": 4},
    "Qwen2Model": GROUPED,
    "Qwen3Model": {**GROUPED, "head_dim": 8},
    "Gemma2Model": {**GROUPED, "head_dim": 8},
    "Olmo2Model": GROUPED,
    "Phi3Model": GROUPED,
    "MixtralModel": {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
    "T5EncoderModel": {
        "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 50,
    },
    "DebertaV2Model": {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "MambaModel": {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 50, "use_cache": False},
    "ViTModel": IMAGE,
    "BeitModel": {**IMAGE, "use_relative_position_bias": True},
    "SwinModel": {
        "image_size": 16, "patch_size": 2, "embed_dim": 16, "depths": [2], "num_heads": [2],
        "window_size": 4,
    },
    "ConvNextModel": {
        "hidden_sizes": [16, 32], "depths": [1, 1], "patch_size": 2, "image_size": 16,
        "num_stages": 2,
    },
    "CLIPVisionModel": IMAGE,
    "SiglipVisionModel": IMAGE,
}  # fmt: skip
LINEAR = {"name": "fixed", "data_in_width": 16, "weight_width": 16, "bias_width": 16}


def model_and_inputs(name):
    """Return a tiny model of an architecture, and a batch with padding where it takes text."""
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    model = kind(kind.config_class(**ARCHITECTURES[name])).eval()
    spread_weights(model)
    if model.main_input_name == "pixel_values":
        return model, {"pixel_values": torch.randn(2, 3, 16, 16)}
    inputs = {"input_ids": torch.randint(3, 50, (2, 8))}
    if name != "MambaModel":
        inputs["attention_mask"] = torch.tensor([[1] * 8, [1] * 6 + [0] * 2])
    return model, inputs


def assert_equal(found, expected):
    pairs = [
        [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
        for outputs in (found, expected)
    ]
    assert pairs[0]
    for left, right in zip(*pairs, strict=True):
        assert_same(left, right)


@pytest.mark.full
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_nothing_quantized_is_the_float_module(name):
    model, inputs = model_and_inputs(name)
    with torch.no_grad():
        expected = model(**inputs)
        mg = trace(model, inputs)
        assert dict(mg.model.named_parameters()).keys() <= dict(model.named_parameters()).keys()
        examples = mg.example_inputs
        assert_equal(mg(*examples), expected)
        assert_equal(quantize(mg, FLOAT)(*examples), expected)
        mg = quantize(mg, {"by": "type", "linear": {"config": LINEAR}})
        assert_equal(GraphRun(mg, only=())(examples), expected)
    assert mg.is_quantized
