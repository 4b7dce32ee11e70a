"""Heads and inner channels of encoders and decoders leave, and what is kept computes the same."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
)

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.passes import prune_structure_transform_pass

SIZES = {"vocab_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4}
MODELS = {
    "BERT": lambda: BertForSequenceClassification(
        BertConfig(hidden_size=16, intermediate_size=12, **SIZES)
    ),
    "DistilBERT": lambda: DistilBertForSequenceClassification(
        DistilBertConfig(vocab_size=40, dim=16, n_layers=1, n_heads=4, hidden_dim=12)
    ),
    "Llama": lambda: LlamaForCausalLM(
        LlamaConfig(
            hidden_size=16, intermediate_size=12, num_key_value_heads=2, use_cache=False, **SIZES
        )
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("criterion", ["l1", "random"])
def test_heads_and_inner_channels_leave(name, criterion):
    torch.manual_seed(0)
    ids = torch.randint(0, 40, (4, 6))
    mg = canonicalize(mase_hw.trace(MODELS[name]().eval(), {"input_ids": ids}))
    smaller, info = prune_structure_transform_pass(mg, {"sparsity": 0.5, "criterion": criterion})
    before, after = info["parameters"]
    assert after < 0.8 * before
    assert [12, 6] in info["channels"].values()
    assert [4, 2] in info["channels"].values()
    # The rows of the vocabulary stay.
    table = next(node for node in smaller.nodes if "embed" in node.name and node.op == "get_attr")
    assert smaller.constant(table).shape[0] >= 40 or "position" in table.name


def test_what_is_kept_computes_what_it_did_before():
    torch.manual_seed(0)
    ids = torch.randint(0, 40, (4, 6))
    model = MODELS["BERT"]().eval()
    inner = model.bert.encoder.layer[0]
    with torch.no_grad():
        # What leaves first: the smallest weights, whose results nothing reads.
        inner.intermediate.dense.weight[:6] *= 1e-3
        inner.output.dense.weight[:, :6] = 0.0
    mg = canonicalize(mase_hw.trace(model, {"input_ids": ids}))
    name = next(n.name for n in mg.nodes if "intermediate_dense" in n.name and n.op != "get_attr")
    smaller, _ = prune_structure_transform_pass(mg, {"sparsity": 0.5, "nodes": [name]})
    torch.testing.assert_close(smaller(ids), mg(ids))
