"""MXINT8 as torch operators: compile, export, gradients, and errors that say what is wrong."""

import pytest
import torch
from torch import Tensor

from mase_hw.errors import ConfigError, FormatError
from mase_hw.kernels.mxint import dequantize, dispatch, linear, quantize, reference, selected, use


@pytest.fixture
def operands():
    torch.manual_seed(0)
    codes, exponents = quantize(torch.randn(9, 77))
    return torch.randn(2, 4, 77), codes, exponents, torch.randn(9)


@pytest.mark.parametrize("quantize_values", [False, True])
def test_operators_keep_torch_contracts(operands, quantize_values):
    values, codes, exponents, bias = operands
    operators = torch.ops.mase_hw
    torch.library.opcheck(operators.mxint8_quantize.default, (values, 32))
    arguments = (codes, exponents, 32, torch.bfloat16)
    torch.library.opcheck(operators.mxint8_dequantize.default, arguments)
    values, bias = values.requires_grad_(), bias.requires_grad_()
    for each_bias in (bias, None):
        torch.library.opcheck(
            operators.mxint8_linear.default,
            (values, codes, exponents, each_bias, 32, quantize_values),
        )


def test_gradients_are_those_of_the_decoded_weight(operands):
    values, codes, exponents, bias = operands
    values.requires_grad_()
    bias.requires_grad_()
    upstream = torch.randn(2, 4, 9)
    linear(values, codes, exponents, bias).backward(upstream)
    weight = reference.dequantize(codes, exponents, 32, torch.float32)
    torch.testing.assert_close(values.grad, upstream @ weight)
    torch.testing.assert_close(bias.grad, upstream.sum((0, 1)))


def test_gradient_of_a_vector():
    codes, exponents = quantize(torch.randn(3, 8))
    values, bias = torch.randn(8, requires_grad=True), torch.zeros(3, requires_grad=True)
    linear(values, codes, exponents, bias).sum().backward()
    assert bias.grad is not None
    assert bias.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("quantize_values", [False, True])
def test_autocast_casts_values_and_bias(operands, quantize_values):
    values, codes, exponents, bias = operands

    def run(values: Tensor, bias: Tensor) -> Tensor:
        return linear(values, codes, exponents, bias, quantize_values=quantize_values)

    expected = run(values.bfloat16(), bias.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(run(values, bias), expected)
        assert torch.equal(run(values.bfloat16(), bias), expected)
        compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(values, bias), expected)
        values.requires_grad_()
        run(values, bias).sum().backward()
    assert values.grad is not None
    assert values.grad.dtype == torch.float32


def test_compiled_equals_eager(operands):
    def function(values: Tensor, codes: Tensor, exponents: Tensor, bias: Tensor) -> Tensor:
        hidden = linear(values, codes, exponents, bias).relu()
        return dequantize(*quantize(hidden, 4), block=4) + 1

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*operands), function(*operands))


@pytest.mark.parametrize("name", ["cpu", "vectorized", "reference"])
@pytest.mark.parametrize("quantize_values", [False, True])
def test_float16_is_float32_rounded_once(operands, name, quantize_values):
    values, codes, exponents, bias = operands
    values, bias = values.half(), bias.half()
    with use(name):
        found, places = quantize(values)
        assert torch.equal(found, quantize(values.float())[0])
        assert torch.equal(places, quantize(values.float())[1])
        assert torch.equal(
            dequantize(codes, exponents, dtype=torch.float16), dequantize(codes, exponents).half()
        )
        result = linear(values, codes, exponents, bias, quantize_values=quantize_values)
        wanted = linear(
            values.float(), codes, exponents, bias.float(), quantize_values=quantize_values
        )
        assert result.dtype == torch.float16
        assert torch.equal(result, wanted.half())
    large = dequantize(torch.tensor([[127, 1]], dtype=torch.int8), torch.tensor([[143]]).byte())
    assert large.half().isinf().tolist() == [[True, False]]
    values.requires_grad_()
    linear(values, codes, exponents, bias).sum().backward()
    assert values.grad is not None
    assert values.grad.dtype == torch.float16


def test_exported_equals_eager(operands):
    class Model(torch.nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return dequantize(*quantize(values))

    values = operands[0]
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(Model(), (values,), dynamic_shapes=({0: batch},))
    targets = {str(node.target) for node in program.graph.nodes}
    assert "mase_hw.mxint8_quantize.default" in targets
    more = torch.randn(7, 4, 77)
    assert torch.equal(program.module()(more), Model()(more))


def test_bad_arguments_say_what_is_allowed():
    codes, exponents = quantize(torch.randn(4, 64))
    cases = [
        (lambda: quantize(torch.randn(4), 0), "block is 0; allowed: an integer from 1 to 1024"),
        (lambda: quantize(torch.randn(4), 1025), "block is 1025"),
        (lambda: quantize(torch.randn(4), True), "block is True"),
        (lambda: quantize(torch.randn(4).double()), "values is torch.float64; allowed"),
        (lambda: quantize(torch.tensor(1.0)), "values is a scalar"),
        (lambda: quantize([1.0]), "values is list; allowed: a torch.Tensor"),
        (lambda: quantize(torch.eye(4).to_sparse()), "values is torch.sparse_coo; allowed"),
        (lambda: dequantize(codes, None), "exponents is NoneType; allowed: a torch.Tensor"),
        (lambda: linear(None, codes, exponents), "values is NoneType; allowed: a torch.Tensor"),
        (lambda: linear(torch.randn(2, 64), codes, exponents, [0.0]), "bias is list; allowed"),
        (
            lambda: linear(torch.empty(2, 64, device="meta"), codes, exponents),
            "values on meta, weight on cpu; allowed: one device for all",
        ),
        (lambda: dequantize(codes.int(), exponents), "codes are torch.int32"),
        (lambda: dequantize(codes, exponents, 16), r"shape \(4, 2\).*blocks of 16 need \(4, 4\)"),
        (lambda: dequantize(codes, exponents, dtype=torch.float64), "dtype is torch.float64"),
        (lambda: dequantize(codes.to("meta"), exponents), "codes on meta, exponents on cpu"),
        (
            lambda: linear(torch.randn(2, 63), codes, exponents),
            r"\(2, 63\) and the weight \(4, 64\)",
        ),
        (
            lambda: linear(torch.randn(2, 64), codes, exponents, torch.zeros(3)),
            r"bias is torch.float32 \(3,\); allowed: torch.float32 \(4,\)",
        ),
        (
            lambda: linear(torch.randn(2, 64).bfloat16(), codes, exponents, torch.zeros(4)),
            "allowed: torch.bfloat16",
        ),
    ]
    for call, message in cases:
        with pytest.raises(FormatError, match=message):
            call()


def test_dispatch_says_which_and_can_be_told(monkeypatch):
    best = selected("dequantize")
    assert best.name == "cpu", [
        f"{each.name}: {each.reason}" for each in dispatch.implementations()
    ]
    with use("reference"):
        assert selected("dequantize").name == "reference"
        assert torch.equal(dequantize(*quantize(torch.ones(32))), torch.ones(32))
    with use("vectorized"):
        assert selected("linear_both").name == "cpu"  # which vectorized does not offer
    assert selected("dequantize") == best
    monkeypatch.setenv(dispatch.VARIABLE, "vectorized")
    assert selected("quantize").name == "vectorized"


def test_dispatch_refuses_what_cannot_run(monkeypatch):
    with pytest.raises(ConfigError, match="did you mean triton"), use("tritn"):
        pass
    unavailable = [each.name for each in dispatch.implementations() if each.reason]
    for name in unavailable:
        with pytest.raises(ConfigError, match="cannot run here"), use(name):
            pass
        monkeypatch.setenv(dispatch.VARIABLE, name)
        with pytest.raises(ConfigError, match=f"'{name}' was asked for, but"):
            selected("quantize")
    monkeypatch.delenv(dispatch.VARIABLE, raising=False)
    with pytest.raises(ConfigError, match="nothing runs on 'meta'"):
        selected("quantize", "meta")
