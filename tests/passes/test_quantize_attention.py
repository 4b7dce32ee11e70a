"""Keys, values and rotary tables in formats, against attention that rounds them by hand."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.errors import ConfigError
from mase_hw.formats import make_format
from mase_hw.formats.fixed import Fixed
from mase_hw.graph import trace
from mase_hw.passes.compression.gptq import gptq_transform_pass
from mase_hw.passes.formats.quantize_attention import quantize_attention_transform_pass

HEADS, SIZE, LENGTH = 2, 8, 6
KEY = {"name": "mxint", "width": 4, "block_size": 8}
VALUE = {"name": "fixed", "width": 5}
ROTARY = {"name": "fixed", "width": 6}


def keep(values):
    return values


class Attention(nn.Module):
    """A decoder's attention with rotary positions; what it rounds is given by functions."""

    def __init__(self, key=keep, value=keep, rotary=keep):
        super().__init__()
        wide = HEADS * SIZE
        self.q, self.k, self.v, self.o = (nn.Linear(wide, wide) for _ in range(4))
        self.key, self.value, self.rotary = key, value, rotary

    def forward(self, x):
        angles = torch.arange(LENGTH)[:, None] / 10.0 ** torch.arange(SIZE // 2)
        angles = torch.cat([angles, angles], -1)
        cos, sin = (self.rotary(item[None, None]) for item in (angles.cos(), angles.sin()))
        q, k, v = (
            layer(x).reshape(-1, LENGTH, HEADS, SIZE).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        q, k = (item * cos + _turned(item) * sin for item in (q, k))
        y = F.scaled_dot_product_attention(q, self.key(k), self.value(v), is_causal=True)
        return self.o(y.transpose(1, 2).reshape(-1, LENGTH, HEADS * SIZE))


def _turned(x):
    left, right = x.chunk(2, -1)
    return torch.cat([-right, left], -1)


def fitted(width):
    return lambda values: Fixed.fit_values(values, width=width).round_values(values)


def case():
    torch.manual_seed(0)
    model = Attention().eval()
    return model, torch.randn(4, LENGTH, HEADS * SIZE)


def test_keys_values_and_tables_are_rounded():
    model, x = case()
    mg = canonicalize(trace(model, x))
    given = {"key": KEY, "value": VALUE, "rotary": ROTARY, "data": [x]}
    found, info = quantize_attention_transform_pass(mg, given)
    assert len(info["key"]) == len(info["value"]) == 1
    assert len(info["rotary"]) == 2
    with torch.no_grad():
        expected = Attention(make_format(KEY).round_values, fitted(5), fitted(6)).eval()
        expected.load_state_dict(model.state_dict())
        torch.testing.assert_close(found(x), expected(x), rtol=0, atol=1e-6)
        assert not torch.allclose(found(x), model(x), atol=1e-3)
        assert torch.equal(mg(x), model(x))


def test_it_composes_with_rounded_weights():
    model, x = case()
    entry = {"name": "none", "weight_name": "mxint", "weight_width": 4}
    mg = quantize(trace(model, x), {"by": "type", "linear": {"config": entry}})
    mg, _ = gptq_transform_pass(mg, {"data": [x]})
    before = mg(x)
    mg, _ = quantize_attention_transform_pass(mg, {"key": KEY})
    assert mg.is_quantized
    assert not torch.equal(mg(x), before)
    wide = {"name": "fixed", "width": 24}
    same, _ = quantize_attention_transform_pass(mg, {"value": wide})
    torch.testing.assert_close(same(x), mg(x), rtol=0, atol=1e-5)


def test_bad_arguments_are_named():
    model, x = case()
    mg = canonicalize(trace(model, x))
    for arguments, message in (
        ({}, "give a format"),
        ({"keys": KEY}, "key"),
        ({"key": KEY, "nodes": ["o"]}, "none"),
    ):
        with pytest.raises(ConfigError, match=message):
            quantize_attention_transform_pass(mg, arguments)
    plain = canonicalize(trace(nn.Sequential(nn.Linear(4, 4)).eval(), torch.randn(2, 4)))
    with pytest.raises(ConfigError, match="no fused attention"):
        quantize_attention_transform_pass(plain, {"key": KEY})
