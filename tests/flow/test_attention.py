"""Attention from end to end: what torch and transformers export, in both engines, under stalls."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import CaptureError
from tests.engines import each
from tests.flow.perceptrons import assert_as_predicted

TOKENS, WIDTH, HEADS = 4, 8, 2
CONFIG = {
    "by": "type",
    "default": {"config": {"name": "fixed", "data_in_width": 8, "weight_width": 8}},
}


class SelfAttention(nn.Module):
    """A module of torch on one stream."""

    def __init__(self, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.options = options

    def forward(self, x):
        result, weights = self.attention(x, x, x, **self.options)
        return result if weights is None else (result, weights)


class CrossAttention(nn.Module):
    """Queries of one stream, keys and values of another one."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, kdim=6, vdim=6)

    def forward(self, x, y):
        return self.attention(x, y, y, need_weights=False)[0]


class BertEncoderLayer(nn.Module):
    """The layer of transformers."""

    def __init__(self):
        super().__init__()
        bert = pytest.importorskip("transformers.models.bert.modeling_bert")
        config = bert.BertConfig(
            hidden_size=WIDTH,
            num_attention_heads=HEADS,
            intermediate_size=2 * WIDTH,
            attn_implementation="sdpa",
        )
        self.layer = bert.BertLayer(config)

    def forward(self, x):
        result = self.layer(x)
        return result[0] if isinstance(result, tuple) else result


CAUSAL = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
MODELS = {
    "encoder layer": lambda: nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True),
    "norm first, gelu": lambda: nn.TransformerEncoderLayer(
        WIDTH, HEADS, 16, batch_first=True, norm_first=True, activation="gelu"
    ),
    "bert": BertEncoderLayer,
    "weights": SelfAttention,
    "causal": lambda: SelfAttention(need_weights=False, attn_mask=CAUSAL),
    "cross": CrossAttention,
}
FULL = pytest.mark.full
QUICK = ("encoder layer", "bert")


def randomized(model):
    """Return the model with parameters that are none of torch's ones and zeros."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return model.eval()


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[] if name in QUICK else FULL) for name in MODELS],
)
def project(request, tmp_path_factory):
    torch.manual_seed(0)
    model = randomized(MODELS[request.param]())
    inputs = [torch.randn(6, TOKENS, WIDTH)]
    if request.param == "cross":
        inputs.append(torch.randn(6, 3, 6))
    graph = mase_hw.quantize(mase_hw.trace(model, tuple(inputs)), CONFIG)
    folder = tmp_path_factory.mktemp("attention")
    return mase_hw.emit_verilog(graph, output=folder, parallelism=2)


@pytest.mark.first(1)
@each
def test_a_layer_is_exact_and_takes_the_cycles_that_are_predicted(project, engine):
    assert_as_predicted(project, engine)


@pytest.mark.parametrize("name", ["encoder layer", "weights", "causal", "cross"])
def test_capture_keeps_the_batch_first_and_computes_the_same(name):
    torch.manual_seed(0)
    model = randomized(MODELS[name]())
    inputs = [torch.randn(3, TOKENS, WIDTH)]
    if name == "cross":
        inputs.append(torch.randn(3, 3, 6))
    graph = mase_hw.trace(model, tuple(inputs))
    assert graph.batched
    more = [torch.randn(5, *item.shape[1:]) for item in inputs]
    with torch.no_grad():
        torch.testing.assert_close(graph(*more), model(*more))


def test_a_model_that_cannot_be_captured_leaves_the_module_as_it_was():
    class Broken(SelfAttention):
        def forward(self, x):
            result = super().forward(x)[0]
            return result if result.sum() > 0 else -result

    before = nn.MultiheadAttention.forward
    with pytest.raises(CaptureError, match="control flow"):
        mase_hw.trace(Broken(), torch.randn(2, TOKENS, WIDTH))
    assert nn.MultiheadAttention.forward is before
