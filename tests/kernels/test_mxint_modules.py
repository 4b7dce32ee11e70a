"""Layers in MXINT8 and the conversion of models."""

import pytest
import torch
import transformers
from torch import nn

from mase_hw.errors import FormatError
from mase_hw.kernels.mxint import MXInt8Embedding, MXInt8Linear, convert_to_mxint8, reference
from mase_hw.kernels.profile.mxint8 import weight_bytes


def bert() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=101, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=96, max_position_embeddings=32,
    )  # fmt: skip
    return transformers.BertModel(config).eval()


def llama() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=101, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=96, tie_word_embeddings=True,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def gpt2() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=101, n_embd=64, n_layer=2, n_head=4, n_positions=32)
    return transformers.GPT2LMHeadModel(config).eval()


IDS = torch.randint(0, 101, (2, 9), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("make", [bert, llama, gpt2])
def test_converted_model_computes_with_the_rounded_weights(make):  # type: ignore[no-untyped-def]
    converted, rounded = convert_to_mxint8(make()), make()
    with torch.no_grad():
        for module in rounded.modules():
            weight = getattr(module, "weight", None)
            if isinstance(module, nn.Linear | nn.Embedding):
                weight.copy_(round_trip(weight))
            elif type(module).__name__ == "Conv1D":
                weight.copy_(round_trip(weight.t()).t())
        found, expected = converted(IDS)[0], rounded(IDS)[0]
    # The same weights; only the order of float sums differs.
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    plain = [type(module) for module in converted.modules()]
    assert nn.Linear not in plain
    assert nn.Embedding not in plain


@pytest.mark.parametrize("make", [bert, llama])
def test_memory_is_eight_bits_and_an_exponent_per_block(make):  # type: ignore[no-untyped-def]
    original = make()
    weights = {
        id(module.weight): module.weight
        for module in original.modules()
        if isinstance(module, nn.Linear | nn.Embedding)
    }
    codes = sum(weight.numel() for weight in weights.values())
    exponents = sum(weight.shape[0] * -(-weight.shape[1] // 32) for weight in weights.values())
    rest = weight_bytes(original) - 4 * codes
    assert weight_bytes(convert_to_mxint8(make())) == codes + exponents + rest


def test_tied_weights_stay_tied():
    model = convert_to_mxint8(llama())
    assert model.lm_head.codes is model.model.embed_tokens.codes
    kept = convert_to_mxint8(llama(), embeddings=False)
    assert type(kept.lm_head) is nn.Linear
    assert kept.lm_head.weight is kept.model.embed_tokens.weight


def test_shared_layers_stay_shared():
    layer = nn.Linear(32, 32)
    model = convert_to_mxint8(nn.Sequential(layer, nn.ReLU(), layer))
    assert model[0] is model[2]
    assert isinstance(model[0], MXInt8Linear)


def test_exports_and_compiles():
    model = convert_to_mxint8(bert())
    with torch.no_grad():
        expected = model(IDS)[0]
        program = torch.export.export(model, (IDS,), strict=False)
        assert torch.equal(program.module()(IDS)[0], expected)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(IDS)[0], expected)


def test_linear_is_a_drop_in():
    torch.manual_seed(0)
    layer = nn.Linear(77, 9)
    converted = MXInt8Linear.from_float(layer)
    assert (converted.in_features, converted.out_features) == (77, 9)
    assert torch.equal(converted.weight, round_trip(layer.weight))
    assert torch.equal(converted.bias, layer.bias)
    assert "block=32" in repr(converted)
    values = torch.randn(3, 77)
    half = MXInt8Linear.from_float(layer).to(torch.bfloat16)
    assert half(values.bfloat16()).dtype == torch.bfloat16
    assert half.weight.dtype == torch.bfloat16
    assert half.codes.dtype == torch.int8
    other = MXInt8Linear.from_float(nn.Linear(77, 9))
    other.load_state_dict(converted.state_dict())
    assert torch.equal(other(values), converted(values))


def test_both_operands_quantized():
    torch.manual_seed(0)
    layer, values = nn.Linear(64, 8), torch.randn(3, 64)
    converted = MXInt8Linear.from_float(layer, quantize_values=True)
    expected = reference.linear_both(values, converted.codes, converted.exponents, layer.bias, 32)
    assert torch.equal(converted(values), expected)


def test_embedding_decodes_the_rows_it_looks_up():
    layer = nn.Embedding(50, 40, padding_idx=0)
    converted = MXInt8Embedding.from_float(layer)
    ids = torch.tensor([[0, 49], [7, 7]])
    assert torch.equal(converted(ids), round_trip(layer.weight)[ids])
    assert converted.padding_idx == 0


def test_what_stays_is_what_cannot_convert():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8).double(), nn.Embedding(4, 8, max_norm=1))
    converted = convert_to_mxint8(model)
    assert [type(each) for each in converted] == [MXInt8Linear, nn.Linear, nn.Embedding]
    with pytest.raises(FormatError, match=r"ReLU has no nn\.Linear or nn\.Embedding of floats"):
        convert_to_mxint8(nn.ReLU())
    assert isinstance(convert_to_mxint8(nn.Linear(8, 8)), MXInt8Linear)


def test_attention_module_of_torch_still_works():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    values = torch.randn(2, 5, 32)
    expected = layer(values)
    found = convert_to_mxint8(layer)(values)
    assert isinstance(layer.linear1, MXInt8Linear)
    assert 0 < (found - expected).norm() / expected.norm() < 0.05


def round_trip(weight: torch.Tensor) -> torch.Tensor:
    codes, exponents = reference.quantize(weight.detach(), 32)
    return reference.dequantize(codes, exponents, 32, weight.dtype)
