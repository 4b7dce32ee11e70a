"""Transformers of the benchmark: whole models, and layers with packaged weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mase_hw._kinds import Table

if TYPE_CHECKING:
    from torch import Tensor, nn

Prepared = tuple["nn.Module", tuple["Tensor", ...]]


@dataclass(frozen=True)
class Subject:
    """A model of the benchmark.

    Attributes:
        prepare: returns the module and example inputs.
        multipliers: the budget of its parallelism.
        parallelism: in place of `auto`.
        queries: of its attention, as `tokens x width` codes that a layer keeps of each of its
            keys and values; 0 for a model whose buffers are not compared.
        layers: layers with attention.
        keeps_state: whether the module is one step, and the inputs are those of a sequence of them.
        reuse: whether its layers run on the hardware of one.
        config: its formats; 8 bits of fixed point unless given.
    """

    prepare: Callable[[], Prepared]
    multipliers: int = 0
    tokens: int = 0
    width: int = 0
    layers: int = 1
    keeps_state: bool = False
    parallelism: Table | None = None
    reuse: bool = False
    config: Table | None = None


def _mxint8(exponent_bits: int) -> dict[str, object]:
    """Return MXINT8 with blocks of 8, scales of so many bits."""
    fields = {"width": 8, "block_size": 8, "exponent_width": exponent_bits}
    operands = ("data_in", "weight", "bias")
    named = {f"{name}_{key}": value for name in operands for key, value in fields.items()}
    return {"config": {"name": "mxint", **named}}


# Rows of scores, and what norms take, have fewer exponents: they are summed exactly.
_MXINT8 = {
    "by": "type",
    "default": _mxint8(4),
    "softmax": _mxint8(3),
    "layer_norm": _mxint8(3),
}


def _bert_tiny() -> Prepared:
    """Ids to a class, with the packaged weights; which tokens are padding follows from the ids."""
    import torch
    from torch import nn

    from mase_hw.models.bert_tiny import BertTiny

    class Classified(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Tensor) -> Tensor:
            found: Tensor = self.model(ids).argmax(-1)
            return found

    torch.manual_seed(0)
    ids = torch.randint(1, 30_000, (4, 32))
    ids[1, 20:] = 0
    return Classified(BertTiny().build()).eval(), (ids,)


def _minilm_layer() -> Prepared:
    """The first encoder layer of MiniLM."""
    import torch

    from mase_hw.models.hub import load_pretrained

    torch.manual_seed(0)
    layer: Any = load_pretrained("minilm").module
    return layer.encoder.layer[0].eval(), (torch.randn(4, 16, 384),)


def _minilm_layers() -> Prepared:
    """All encoder layers of MiniLM."""
    import torch
    from torch import nn

    from mase_hw.models.hub import load_pretrained

    class Layers(nn.Module):
        def __init__(self, layers: nn.ModuleList) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    torch.manual_seed(0)
    model: Any = load_pretrained("minilm").module
    return Layers(model.encoder.layer).eval(), (torch.randn(4, 16, 384),)


def _smollm2_layer() -> Prepared:
    """The first decoder layer of SmolLM2: rotary positions, grouped queries, a gated MLP."""
    import torch
    from torch import nn

    from mase_hw.models.hub import load_pretrained

    class Layer(nn.Module):
        def __init__(self, model: Any, tokens: int) -> None:
            super().__init__()
            self.layer = model.model.layers[0]
            positions = torch.arange(tokens)[None]
            cos, sin = model.model.rotary_emb(torch.zeros(1, tokens, 1), positions)
            self.register_buffer("cos", cos)
            self.register_buffer("sin", sin)
            mask = torch.ones(tokens, tokens, dtype=torch.bool).tril()
            self.register_buffer("mask", mask[None, None])

        def forward(self, x: Tensor) -> Tensor:
            found = self.layer(
                x, attention_mask=self.mask, position_embeddings=(self.cos, self.sin)
            )
            result: Tensor = found[0] if isinstance(found, tuple) else found
            return result

    torch.manual_seed(0)
    model: Any = load_pretrained("smollm2-135m").module
    return Layer(model, 16).eval(), (torch.randn(4, 16, 576) * 0.1,)


def _of_config(kind: str, config: Mapping[str, object], tokens: int) -> Callable[[], Prepared]:
    def prepare() -> Prepared:
        import torch
        import transformers

        from tests.bench.architectures import spread_weights

        torch.manual_seed(0)
        cls: Any = getattr(transformers, kind)
        module = cls(cls.config_class(**config, use_cache=False))
        spread_weights(module)
        return module.eval(), (torch.randint(3, 50, (4, tokens)),)

    return prepare


def _llama_step() -> Prepared:
    """Steps of a Llama of two layers, random weights: tokens to logits, with its static cache."""
    import torch
    import transformers

    from mase_hw.nn import DecoderStep
    from tests.bench.architectures import spread_weights

    tokens = 16
    torch.manual_seed(0)
    module: Any = transformers.LlamaForCausalLM(transformers.LlamaConfig(**_LLAMA))
    spread_weights(module)
    steps = torch.randint(3, 50, (tokens, 1, 1)), torch.arange(tokens)[:, None]
    return DecoderStep(module.eval(), tokens), steps


def _smollm2_step() -> Prepared:
    """Steps of the first decoder layer of SmolLM2, with keys and values of the tokens before."""
    import torch
    from torch import nn

    from mase_hw.models.hub import load_pretrained
    from mase_hw.nn import KeyValueCache

    class Kept:
        """What a layer of transformers takes for a cache."""

        def __init__(self, cache: nn.Module, position: Tensor) -> None:
            self.cache = cache
            self.position = position

        def update(self, key: Tensor, value: Tensor, *others: object) -> tuple[Tensor, Tensor]:
            found: tuple[Tensor, Tensor] = self.cache(key, value, self.position)
            return found

    class Layer(nn.Module):
        def __init__(self, model: Any, tokens: int) -> None:
            super().__init__()
            config = model.config
            self.layer = model.model.layers[0]
            self.turned = model.model.rotary_emb
            size = config.hidden_size // config.num_attention_heads
            self.cache = KeyValueCache(tokens, config.num_key_value_heads, size)

        def forward(self, x: Tensor, position: Tensor) -> Tensor:
            result: Tensor = self.layer(
                x,
                attention_mask=self.cache.seen(position),
                position_embeddings=self.turned(x, position[None]),
                past_key_values=Kept(self.cache, position),
            )
            return result

    tokens = 32
    torch.manual_seed(0)
    model: Any = load_pretrained("smollm2-135m").module
    steps = torch.randn(tokens, 1, 1, 576) * 0.1, torch.arange(tokens)[:, None]
    return Layer(model, tokens).eval(), steps


def deit_tiny(blocks: int) -> Callable[[], Prepared]:
    """Return blocks of DeiT-tiny, random weights: 196 tokens, 192 wide, 3 heads."""

    def prepare() -> Prepared:
        import torch
        import transformers
        from torch import nn
        from transformers.models.vit import modeling_vit

        from tests.bench.architectures import spread_weights

        class Blocks(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                made: list[Any] = [modeling_vit.ViTLayer(config) for _ in range(blocks)]
                self.blocks = nn.ModuleList(made)

            def forward(self, x: Tensor) -> Tensor:
                for block in self.blocks:
                    x = block(x)
                return x

        torch.manual_seed(0)
        config = transformers.ViTConfig(
            hidden_size=192, num_attention_heads=3, intermediate_size=768
        )
        config._attn_implementation = "sdpa"
        model = Blocks()
        spread_weights(model)
        return model.eval(), (torch.randn(2, 196, 192),)

    return prepare


def published_lanes(blocks: int) -> Mapping[str, object]:
    """Return lanes of which each block has the multipliers of a published design.

    Its products take 4 x 144 and 2 x 160 in attention, where that has 912, and 2 x 576 in the MLP.
    """
    attention = "attention_scaled_dot_product_attention"
    lanes = {
        "layernorm_before": (2, 2),
        **{f"attention_{name}_proj": (12, 12) for name in "qkvo"},
        f"{attention}_matmul": (32, 5),
        attention: (5, 32),
        "add": (2, 2),
        "layernorm_after": (2, 2),
        "mlp_fc1": (24, 24),
        "mlp_fc2": (24, 24),
        "add_1": (2, 2),
    }
    table: dict[str, object] = {"default": 1}
    for block in range(blocks):
        for name, (taken, given) in lanes.items():
            table[f"blocks_{block}_{name}"] = {"data_in_0_dim_0": taken, "data_out_0_dim_0": given}
        for name in ("attention_view", "attention_view_1", "attention_view_2"):
            table[f"blocks_{block}_{name}"] = {"data_in_0_dim_0": 32}
        table[f"blocks_{block}_attention_reshape_1"] = {"data_out_0_dim_0": 32}
    return table


_TEXT = {"vocab_size": 50, "max_position_embeddings": 32}
_LLAMA: Table = {
    **_TEXT, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "intermediate_size": 64,
}  # fmt: skip
SUBJECTS: Mapping[str, Subject] = {
    "gpt2-2": Subject(
        _of_config(
            "GPT2Model",
            {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": 50, "n_positions": 32},
            8,
        ),
        128, 8, 32, 2,
    ),
    "llama-2": Subject(_of_config("LlamaModel", _LLAMA, 8), 128),
    "llama-step": Subject(_llama_step, 128, keeps_state=True),
    "bert-tiny": Subject(_bert_tiny, 512, 32, 128, 2),
    "bert-tiny-mxint8": Subject(_bert_tiny, 512, config=_MXINT8),
    "minilm-layer": Subject(_minilm_layer, 512, 16, 384),
    "minilm-reuse": Subject(_minilm_layers, 512, reuse=True),
    "smollm2-layer": Subject(_smollm2_layer, 512),
    "smollm2-step": Subject(_smollm2_step, 512, keeps_state=True),
    "deit-tiny-block": Subject(deit_tiny(1), 2064, 196, 192),
    "deit-tiny-published": Subject(
        deit_tiny(1), tokens=196, width=192, parallelism=published_lanes(1)
    ),
    "deit-tiny-published-2": Subject(
        deit_tiny(2), tokens=196, width=192, layers=2, parallelism=published_lanes(2)
    ),
}  # fmt: skip
