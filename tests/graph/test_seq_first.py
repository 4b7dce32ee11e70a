"""Layers that take time before the batch: torch's transformers, whose batch stays free."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.preflight import preflight
from mase_hw.ops import Apply

TOKENS, WIDTH, HEADS, ROWS = 3, 4, 2, 5
CAUSAL = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
PADDING = torch.tensor([[False, False, True], [False, True, False]])


class TimeFirst(nn.Module):
    """A layer between two transpositions."""

    def __init__(self, layer, **options):
        super().__init__()
        self.layer, self.options = layer, options
        self.register_buffer("positions", torch.arange(1.0 * TOKENS)[:, None, None])

    def forward(self, x, *padding):
        names = ("src_key_padding_mask",) * len(padding)
        given = dict(zip(names, padding, strict=True))
        moved = x.transpose(0, 1) + self.positions
        return self.layer(moved, **given, **self.options).transpose(0, 1)


class Attention(nn.Module):
    """Attention of one stream to another one, with its weights."""

    def __init__(self, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, **options)

    def forward(self, x, y, padding, mask=CAUSAL):
        if not self.attention.batch_first:
            x, y = x.transpose(0, 1), y.transpose(0, 1)
        result, weights = self.attention(x, y, y, key_padding_mask=padding, attn_mask=mask)
        return (result if self.attention.batch_first else result.transpose(0, 1)), weights


def encoder(**options):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


MODELS = {
    "encoder": (lambda: TimeFirst(encoder()), ()),
    "masked": (lambda: TimeFirst(encoder(norm_first=True), mask=CAUSAL), ()),
    "padded": (lambda: TimeFirst(encoder(), mask=CAUSAL), (PADDING,)),
    "attention": (Attention, (torch.ones(2, TOKENS, WIDTH), PADDING)),
    "more keys": (
        lambda: Attention(add_bias_kv=True, add_zero_attn=True, batch_first=True),
        (torch.ones(2, TOKENS, WIDTH), PADDING),
    ),
}


def rows_of(inputs, rows):
    torch.manual_seed(1)
    return [
        item[:1].expand(rows, *item.shape[1:]).clone()
        if item.dtype is torch.bool
        else torch.randn(rows, *item.shape[1:])
        for item in inputs
    ]


@pytest.mark.first(2)
@pytest.mark.parametrize("name", MODELS)
def test_time_before_the_batch_leaves_it_free(name):
    torch.manual_seed(0)
    build, others = MODELS[name]
    model, inputs = build().eval(), (torch.randn(2, TOKENS, WIDTH), *others)
    mg = mase_hw.trace(model, inputs)
    assert mg.batched
    assert preflight(mase_hw.quantize(mg)) == []
    given = rows_of(inputs, ROWS)
    torch.testing.assert_close(mg(*given), model(*given), rtol=1e-5, atol=1e-6)


def test_what_mixes_the_first_dimension_has_its_batch_in_the_second_one():
    model = Apply(lambda x: torch.softmax(x.transpose(0, 1), 1).transpose(0, 1))
    mg = mase_hw.trace(model, torch.randn(2, TOKENS, WIDTH))
    assert mg.batch_dims.of_input(0) == mg.batch_dims.of_result(0) == 1
    x = torch.randn(2, 7, WIDTH)
    torch.testing.assert_close(mg(x), model(x))
    assert preflight(mase_hw.quantize(mg)) == []


def test_a_padded_encoder_is_the_one_that_is_written():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, batch_first=True)
    x = torch.randn(2, TOKENS, WIDTH)
    inputs = {"src": x, "src_key_padding_mask": PADDING}
    mg = mase_hw.trace(nn.TransformerEncoder(layer, 1), inputs)
    # Gradients keep torch from its fast path, which gives zeros for the tokens of a padding.
    expected = nn.TransformerEncoder(layer, 1).eval()(**inputs).detach()
    torch.testing.assert_close(mg(x, PADDING), mg(*mg.example_inputs))
    torch.testing.assert_close(mg(*mg.example_inputs), expected, rtol=1e-5, atol=1e-6)
