"""Architectures of transformers in tiny configurations, with random weights and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

TOKENS = 8
_TEXT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 50,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
_DECODER = {**_TEXT, "bos_token_id": 1, "eos_token_id": 2}
_GROUPED = {**_DECODER, "num_key_value_heads": 2}
_IMAGE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 16,
    "patch_size": 8,
}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 50}
_SPEECH = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": [16, 16],
    "conv_stride": [4, 2],
    "conv_kernel": [8, 4],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
}
_BART = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 50,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
ARCHITECTURES: Mapping[str, Mapping[str, object]] = {
    "BertForSequenceClassification": _TEXT,
    "BertForMaskedLM": _TEXT,
    "DistilBertForSequenceClassification": {
        "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 50,
    },
    "RobertaForSequenceClassification": {**_TEXT, "pad_token_id": 1},
    "AlbertForSequenceClassification": {**_TEXT, "embedding_size": 16},
    "ElectraForSequenceClassification": {**_TEXT, "embedding_size": 16},
    "MobileBertForSequenceClassification": {
        **_TEXT, "embedding_size": 32, "intra_bottleneck_size": 32, "num_feedforward_networks": 1,
    },
    "DebertaV2ForSequenceClassification": {
        **_TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
    },
    "ModernBertForSequenceClassification": {
        **_TEXT, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
        "local_attention": 4,
    },
    "LayoutLMForSequenceClassification": _TEXT,
    "GPT2LMHeadModel": {**_GPT2, "bos_token_id": 1, "eos_token_id": 2},
    "GPTNeoForCausalLM": {
        "hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 50,
        "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 32,
        "window_size": 4, "bos_token_id": 1, "eos_token_id": 2,
    },
    "GPTNeoXForCausalLM": _DECODER,
    "OPTForCausalLM": {
        **{k: v for k, v in _DECODER.items() if k != "intermediate_size"}, "ffn_dim": 64,
        "word_embed_proj_dim": 32,
    },
    "LlamaForCausalLM": _GROUPED,
    "MistralForCausalLM": {**_GROUPED, "sliding_window": 4},
    "Qwen2ForCausalLM": _GROUPED,
    "Qwen3ForCausalLM": {**_GROUPED, "head_dim": 8},
    "GemmaForCausalLM": {**_GROUPED, "head_dim": 8},
    "Gemma2ForCausalLM": {**_GROUPED, "head_dim": 8, "sliding_window": 4},
    "Gemma3ForCausalLM": {**_GROUPED, "head_dim": 8, "sliding_window": 4},
    "GraniteForCausalLM": _GROUPED,
    "Olmo2ForCausalLM": _GROUPED,
    "Phi3ForCausalLM": _GROUPED,
    "MixtralForCausalLM": {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
    "Qwen3MoeForCausalLM": {
        **_GROUPED, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "decoder_sparse_step": 1,
    },
    "MambaForCausalLM": {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 50},
    "T5ForConditionalGeneration": {
        "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 50,
        "decoder_start_token_id": 0, "pad_token_id": 0,
    },
    "T5EncoderModel": {
        "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 50,
    },
    "BartForConditionalGeneration": _BART,
    "WhisperForConditionalGeneration": {
        **_BART, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16,
    },
    "CLIPTextModel": {**_TEXT, "bos_token_id": 1, "eos_token_id": 2},
    "CLIPVisionModel": _IMAGE,
    "SiglipVisionModel": _IMAGE,
    "ViTForImageClassification": _IMAGE,
    "DeiTForImageClassification": _IMAGE,
    "Dinov2ForImageClassification": {**_IMAGE, "mlp_ratio": 2},
    "BeitForImageClassification": {**_IMAGE, "use_relative_position_bias": True},
    "SwinForImageClassification": {
        "image_size": 16, "patch_size": 2, "embed_dim": 16, "depths": [2], "num_heads": [2],
        "window_size": 4,
    },
    "SegformerForImageClassification": {
        "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [16, 32],
        "patch_sizes": [3, 3], "strides": [2, 2], "num_attention_heads": [1, 2],
        "mlp_ratios": [2, 2],
    },
    "ConvNextForImageClassification": {
        "hidden_sizes": [16, 32], "depths": [1, 1], "patch_size": 2, "image_size": 16,
        "num_stages": 2,
    },
    "ResNetForImageClassification": {
        "embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic",
    },
    "MobileNetV2ForImageClassification": {"image_size": 32, "depth_multiplier": 0.35},
    "Wav2Vec2ForSequenceClassification": _SPEECH,
    "HubertForSequenceClassification": _SPEECH,
    "PatchTSTForPrediction": {
        "num_input_channels": 2, "context_length": 16, "patch_length": 4, "patch_stride": 4,
        "prediction_length": 4, "d_model": 32, "num_attention_heads": 4, "num_hidden_layers": 1,
        "ffn_dim": 64,
    },
}  # fmt: skip


def model_and_inputs(name: str, attention: str = "sdpa") -> tuple[nn.Module, dict[str, Tensor]]:
    """Return a tiny model of an architecture with what it naturally takes, a batch of two.

    Text has a mask with padding.

    Args:
        name: a key of `ARCHITECTURES`.
        attention: `eager` or `sdpa`.
    """
    model = model_of(name, attention)
    spread_weights(model)
    return model, inputs_of(name, model)


def model_of(name: str, attention: str = "sdpa") -> nn.Module:
    """Return a tiny model of an architecture as transformers initialises it."""
    import torch
    import transformers

    torch.manual_seed(0)
    kind = getattr(transformers, name)
    config = kind.config_class(**ARCHITECTURES[name])
    try:
        model = kind._from_config(config, attn_implementation=attention)
    except ValueError:
        model = kind._from_config(config, attn_implementation="eager")
    found: nn.Module = model.eval()
    return found


def spread_weights(model: nn.Module) -> None:
    """Give matrices, in place, weights of a trained model's size.

    With the small ones that transformers initialises, most of a model adds little to its result,
    and an error there does not show.
    """
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=1.5 / parameter[0].numel() ** 0.5)


def inputs_of(name: str, model: Any) -> dict[str, Tensor]:
    """Return what a model naturally takes, a batch of two."""
    import torch

    main = model.main_input_name
    if main == "pixel_values":
        size = 32 if name.startswith("MobileNet") else 16
        return {"pixel_values": torch.randn(2, 3, size, size)}
    if main == "past_values":
        return {"past_values": torch.randn(2, 16, 2)}
    if main == "input_values":
        return {"input_values": torch.randn(2, 200)}
    if main == "input_features":
        return {
            "input_features": torch.randn(2, 8, 32),
            "decoder_input_ids": torch.randint(3, 50, (2, 4)),
        }
    ids = torch.randint(3, 50, (2, TOKENS))
    inputs = {"input_ids": ids}
    if not name.startswith("Mamba"):
        mask = torch.ones(2, TOKENS, dtype=torch.int64)
        mask[1, TOKENS - 2 :] = 0
        inputs["attention_mask"] = mask
    if name.startswith("CLIPText"):
        ids[:, 5] = 2
    if name.startswith("LayoutLM"):
        corners = torch.randint(0, 15, (2, TOKENS, 2))
        inputs["bbox"] = torch.cat([corners, corners + 5], dim=-1)
    if name.endswith("ConditionalGeneration"):
        inputs["decoder_input_ids"] = torch.randint(3, 50, (2, 4))
    return inputs
