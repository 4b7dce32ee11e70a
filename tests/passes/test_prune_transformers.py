"""Heads, inner channels and the hidden width of transformers leave, and the rest is the same."""

import copy

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    ElectraConfig,
    ElectraForSequenceClassification,
    FalconConfig,
    FalconForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    RobertaConfig,
    RobertaForSequenceClassification,
    ViTConfig,
    ViTForImageClassification,
)

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError
from mase_hw.passes import prune_structure_transform_pass

WIDTH = 16
LAYERS = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES = {**LAYERS, "vocab_size": 40, "intermediate_size": 12}
DECODER = {**LAYERS, "vocab_size": 40, "use_cache": False}
LLAMA = {**SIZES, "num_key_value_heads": 2, "head_dim": 4, "use_cache": False}
MODELS = {
    "BERT": lambda: BertForSequenceClassification(BertConfig(**SIZES)),
    "tied BERT": lambda: BertForMaskedLM(BertConfig(**SIZES)),
    "RoBERTa": lambda: RobertaForSequenceClassification(RobertaConfig(**SIZES)),
    "DistilBERT": lambda: DistilBertForSequenceClassification(
        DistilBertConfig(vocab_size=40, dim=WIDTH, n_layers=2, n_heads=4, hidden_dim=12)
    ),
    "ELECTRA": lambda: ElectraForSequenceClassification(ElectraConfig(embedding_size=8, **SIZES)),
    "GPT-2": lambda: GPT2LMHeadModel(
        GPT2Config(
            vocab_size=40,
            n_embd=WIDTH,
            n_layer=2,
            n_head=4,
            n_inner=12,
            use_cache=False,
            bos_token_id=1,
            eos_token_id=2,
        )
    ),
    "Llama": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA)),
    "tied Llama": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=True)),
    "Gemma": lambda: GemmaForCausalLM(GemmaConfig(**LLAMA)),
    "Gemma 2": lambda: Gemma2ForCausalLM(Gemma2Config(**LLAMA)),
    "OPT": lambda: OPTForCausalLM(OPTConfig(**DECODER, word_embed_proj_dim=WIDTH, ffn_dim=12)),
    "Falcon": lambda: FalconForCausalLM(FalconConfig(**DECODER, ffn_hidden_size=12)),
    "ViT": lambda: ViTForImageClassification(
        ViTConfig(**LAYERS, intermediate_size=12, image_size=8, patch_size=4, num_labels=5)
    ),
}


def model_of(name):
    """Return a model whose channels differ by three decades, as those of trained ones do."""
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for item in model.parameters():
            item.copy_(torch.randn_like(item) * 10 ** (3 * torch.rand(item.shape[-1:]) - 2.5))
    return model


def inputs_of(name, batch):
    torch.manual_seed(batch)
    if name == "ViT":
        return {"pixel_values": torch.randn(batch, 3, 8, 8)}
    ids = torch.randint(0, 40, (batch, 6))
    if "BERT" not in name:
        return {"input_ids": ids}
    return {"input_ids": ids, "attention_mask": (torch.arange(6) < 4 + ids[:, :1] % 3).long()}


class Kept(nn.Module):
    """A norm over some channels, with zeros for the others."""

    def __init__(self, norm, kept):
        super().__init__()
        self.kept, self.norm = kept, copy.deepcopy(norm)
        self.norm.normalized_shape = (len(kept),)
        for name, value in norm.named_parameters():
            setattr(self.norm, name, nn.Parameter(value[kept]))

    def forward(self, x):
        result = torch.zeros_like(x)
        result[..., self.kept] = self.norm(x[..., self.kept])
        return result


def with_norms_over(model, kept):
    """Return a model of the original width that looks at some channels alone."""
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if "norm" in type(child).__name__.lower() and len(child.weight) == WIDTH:
                setattr(module, name, Kept(child, kept))
            if name == "embeddings_project":
                # Layers read it as it is.
                lost = [i not in kept for i in range(WIDTH)]
                with torch.no_grad():
                    child.weight[lost], child.bias[lost] = 0.0, 0.0
    return model


def table_of(mg, name):
    weights = [item for item in mg.node(name).all_input_nodes if item.op == "get_attr"]
    return mg.constant(weights[0]).detach()


def parts(info):
    """Return the sorted roles of the layers that shrank: heads, inner channels, width."""
    return {tuple(pair) for pair in info["channels"].values()}


@pytest.mark.first(1)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("criterion", ["l1", "random"])
def test_the_hidden_width_leaves(name, criterion):
    """The oracle is torch's own model, in which norms are over what is kept."""
    model = model_of(name)
    mg = mase_hw.trace(model, inputs_of(name, 3))
    given = {"sparsity": 0.5, "criterion": criterion, "seed": 3}
    _, info = prune_structure_transform_pass(mg, given)
    assert parts(info) >= {(WIDTH, WIDTH // 2), (12, 6)}
    # Of GPT-2 and Falcon one layer makes queries, keys and values.
    assert (4, 2) in parts(info) or name in ("GPT-2", "Falcon")
    first = "project" if name in ("ELECTRA", "ViT") else "emb" if name != "GPT-2" else "wte"
    root = next(item for item in info["channels"] if first in item)
    smaller, info = prune_structure_transform_pass(mg, {**given, "nodes": [root]})
    assert info["parameters"][1] < 0.8 * info["parameters"][0]
    table, small = (table_of(graph, root) for graph in (mg, smaller))
    if first == "project":
        table, small = table.flatten(1).T, small.flatten(1).T
    kept = [i for i in range(WIDTH) if any(torch.equal(table[:, i], item) for item in small.T)]
    assert len(kept) == WIDTH // 2
    oracle = with_norms_over(model, torch.tensor(kept))
    for batch in (1, 5):
        inputs = inputs_of(name, batch)
        with torch.no_grad():
            expected, found = oracle(**inputs).logits, smaller(**inputs)
        torch.testing.assert_close(found["logits"], expected, rtol=1e-4, atol=1e-4)
        assert not torch.allclose(expected, model(**inputs).logits, rtol=1e-2, atol=1e-2)


def test_a_narrow_llama_has_the_weights_of_the_wide_one():
    mg = mase_hw.trace(model_of("tied Llama"), inputs_of("tied Llama", 3))
    smaller, _ = prune_structure_transform_pass(mg, {"sparsity": 0.5})
    sizes = {"hidden_size": 8, "intermediate_size": 6, "num_attention_heads": 2}
    narrow = LlamaForCausalLM(
        LlamaConfig(**LLAMA | sizes | {"num_key_value_heads": 1, "tie_word_embeddings": True})
    )
    missing, unexpected = narrow.load_state_dict(smaller.state_dict(), strict=False)
    assert missing == ["lm_head.weight"]
    assert unexpected == ["model.rotary_emb.inv_freq"]
    inputs = inputs_of("Llama", 4)
    expected = narrow.eval()(**inputs).logits
    torch.testing.assert_close(smaller(**inputs)["logits"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["BERT", "GPT-2", "Llama", "ViT"])
def test_a_canonical_graph_shrinks_alike(name):
    mg = canonicalize(mase_hw.trace(model_of(name), inputs_of(name, 3)))
    smaller, info = prune_structure_transform_pass(mg, {"sparsity": 0.5})
    assert info["parameters"][1] < 0.45 * info["parameters"][0]
    assert smaller(**inputs_of(name, 4))["logits"].shape[0] == 4


class Split(nn.Module):
    """Heads of one layer in the ways of vision transformers, by unbinding and by chunks."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.embed, self.norm = nn.Linear(6, 16), nn.LayerNorm(16)
        self.qkv, self.proj, self.head = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x):
        x = self.embed(x)
        y, (rows, length, _) = self.qkv(self.norm(x)), x.shape
        if self.how == "unbind":
            q, k, v = y.reshape(rows, length, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        elif self.how == "heads":
            y = y.reshape(rows, length, 4, 12).transpose(1, 2)
            q, k, v = y.chunk(3, dim=-1)
        else:
            q, k, v = (z.view(rows, length, 4, 4).transpose(1, 2) for z in y.chunk(3, dim=-1))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.head(x + self.proj(y.transpose(1, 2).reshape(rows, length, 16)))


@pytest.mark.parametrize("how", ["unbind", "heads", "chunk"])
def test_heads_of_one_layer_leave_whole(how):
    torch.manual_seed(0)
    mg = mase_hw.trace(Split(how), torch.randn(2, 5, 6))
    smaller, info = prune_structure_transform_pass(mg, {"sparsity": 0.5, "nodes": ["qkv"]})
    assert smaller.constant(smaller.node("qkv_weight")).shape == (24, 16)
    assert smaller.constant(smaller.node("proj_weight")).shape == (16, 8)
    assert info["channels"]["qkv"][1] * 2 == info["channels"]["qkv"][0]
    assert smaller(torch.randn(7, 5, 6)).shape == (7, 5, 3)
    _, info = prune_structure_transform_pass(mg, {"sparsity": 0.5})
    assert info["channels"]["embed"] == [16, 8]


def test_what_keeps_channels_is_named():
    model = MODELS["BERT"]().eval()
    mg = mase_hw.trace(model, inputs_of("BERT", 2))
    with pytest.raises(ConfigError, match="channels of 'classifier' cannot leave; output needs"):
        prune_structure_transform_pass(mg, {"sparsity": 0.5, "nodes": ["classifier"]})
