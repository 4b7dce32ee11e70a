"""Layers whose weights live in MXINT8, and the conversion of a whole model to them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor, nn

from mase_hw.errors import FormatError
from mase_hw.kernels.mxint._checks import DEFAULT_BLOCK, FLOAT_DTYPES, check_block
from mase_hw.kernels.mxint.operators import dequantize, linear, quantize

logger = logging.getLogger(__name__)


class _MXInt8Weight(nn.Module):
    """A weight `[rows, columns]` kept as the buffers `codes` and `exponents`."""

    codes: Tensor
    exponents: Tensor

    def __init__(self, codes: Tensor, exponents: Tensor, block: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.block = block
        self.dtype = dtype
        self.register_buffer("codes", codes)
        self.register_buffer("exponents", exponents)

    @property
    def weight(self) -> Tensor:
        """The decoded weight, made anew at every access."""
        return dequantize(self.codes, self.exponents, self.block, self.dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        """Follow `.to(dtype)`: the buffers stay integers, the decoded dtype changes."""
        self.dtype = fn(torch.empty(0, dtype=self.dtype, device=self.codes.device)).dtype
        module: nn.Module = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return module


class MXInt8Linear(_MXInt8Weight):
    """Drop-in for `nn.Linear` with the weight in MXINT8.

    Args:
        codes: int8 `[out_features, in_features]`.
        exponents: uint8 `[out_features, ceil(in_features / block)]`.
        bias: `[out_features]` or None.
        block: elements that share an exponent.
        dtype: dtype of the decoded weight.
        quantize_values: also round the inputs to MXINT8 (W8A8).

    Examples:
        >>> layer = MXInt8Linear.from_float(nn.Linear(64, 8))
        >>> layer(torch.randn(2, 64)).shape
        torch.Size([2, 8])
    """

    def __init__(
        self,
        codes: Tensor,
        exponents: Tensor,
        bias: Tensor | None = None,
        block: int = DEFAULT_BLOCK,
        dtype: torch.dtype = torch.float32,
        quantize_values: bool = False,
    ) -> None:
        super().__init__(codes, exponents, block, dtype)
        self.out_features, self.in_features = codes.shape
        self.quantize_values = quantize_values
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())

    @classmethod
    def from_float(
        cls, layer: nn.Linear, block: int = DEFAULT_BLOCK, quantize_values: bool = False
    ) -> MXInt8Linear:
        """Return the layer with its weight rounded to MXINT8."""
        codes, exponents = quantize(layer.weight, block)
        return cls(codes, exponents, layer.bias, block, layer.weight.dtype, quantize_values)

    def forward(self, values: Tensor) -> Tensor:
        """Return `values @ weight.T + bias`."""
        return linear(
            values,
            self.codes,
            self.exponents,
            self.bias,
            self.block,
            quantize_values=self.quantize_values,
        )

    def extra_repr(self) -> str:
        """Return sizes, block and what is quantized."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, block={self.block}, "
            f"quantize_values={self.quantize_values}"
        )


class MXInt8Embedding(_MXInt8Weight):
    """Drop-in for `nn.Embedding` with the table in MXINT8; only the rows looked up are decoded.

    Args:
        codes: int8 `[num_embeddings, embedding_dim]`.
        exponents: uint8 `[num_embeddings, ceil(embedding_dim / block)]`.
        block: elements that share an exponent.
        dtype: dtype of the decoded rows.
        padding_idx: kept for readers of the attribute; the table is not trained.
    """

    def __init__(
        self,
        codes: Tensor,
        exponents: Tensor,
        block: int = DEFAULT_BLOCK,
        dtype: torch.dtype = torch.float32,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(codes, exponents, block, dtype)
        self.num_embeddings, self.embedding_dim = codes.shape
        self.padding_idx = padding_idx

    @classmethod
    def from_float(cls, layer: nn.Embedding, block: int = DEFAULT_BLOCK) -> MXInt8Embedding:
        """Return the layer with its table rounded to MXINT8."""
        codes, exponents = quantize(layer.weight, block)
        return cls(codes, exponents, block, layer.weight.dtype, layer.padding_idx)

    def forward(self, indices: Tensor) -> Tensor:
        """Return the rows of `indices`, `[..., embedding_dim]`."""
        codes = nn.functional.embedding(indices, self.codes)
        exponents = nn.functional.embedding(indices, self.exponents)
        return dequantize(codes, exponents, self.block, self.dtype)

    def extra_repr(self) -> str:
        """Return sizes and block."""
        return f"{self.num_embeddings}, {self.embedding_dim}, block={self.block}"


def convert_to_mxint8(
    model: nn.Module,
    *,
    block: int = DEFAULT_BLOCK,
    quantize_values: bool = False,
    embeddings: bool = True,
) -> nn.Module:
    """Replace linear layers and embeddings of `model` in place, and return it.

    Every `nn.Linear` (and the transposed `Conv1D` of GPT-2 in transformers) becomes an
    `MXInt8Linear`, every `nn.Embedding` an `MXInt8Embedding`. Weights that were tied share their
    codes afterwards. Left as they are, with the reason logged: subclasses, embeddings with
    `max_norm`, and a linear layer tied to a table that stays in float, where converting would
    add memory.

    Args:
        model: any module, from Hugging Face or not.
        block: elements that share an exponent.
        quantize_values: also round the inputs of linear layers (W8A8).
        embeddings: also convert embeddings.

    Raises:
        FormatError: for an illegal block, or when the model has nothing to convert.

    Examples:
        >>> model = convert_to_mxint8(nn.Sequential(nn.Linear(64, 64), nn.ReLU()))
        >>> type(model[0]).__name__
        'MXInt8Linear'
    """
    check_block(block)
    targets = {
        name: module
        for name, module in model.named_modules()
        if _kind(module) == "linear" or (embeddings and _kind(module) == "embedding")
    }
    kept = {
        id(parameter)
        for name, module in model.named_modules()
        if name not in targets
        for parameter in module.parameters(recurse=False)
    }
    shared: dict[int, tuple[Tensor, Tensor]] = {}
    replacements: dict[int, nn.Module] = {}
    for name, module in targets.items():
        weight = _weight(module)
        if weight.dtype not in FLOAT_DTYPES:
            logger.info("mxint8: %s stays: its weight is %s", name, weight.dtype)
        elif id(weight) in kept:
            logger.info("mxint8: %s stays: its weight is tied to a layer that stays", name)
        else:
            if id(weight) not in shared:
                shared[id(weight)] = quantize(_oriented(module), block)
            codes, exponents = shared[id(weight)]
            replacements[id(module)] = _replacement(
                module, codes, exponents, block, quantize_values
            )
    if not replacements:
        raise FormatError(
            f"mxint8: {type(model).__name__} has no nn.Linear or nn.Embedding of floats"
        )
    if id(model) in replacements:
        return replacements[id(model)]
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if id(child) in replacements:
                setattr(parent, name, replacements[id(child)])
    return model


def _kind(module: nn.Module) -> str:
    if type(module) is nn.Linear or _is_conv1d(module):
        return "linear"
    if type(module) is nn.Embedding and module.max_norm is None:
        return "embedding"
    return ""


def _is_conv1d(module: nn.Module) -> bool:
    """Recognize the linear layer that transformers calls Conv1D, without importing it."""
    cls = type(module)
    return cls.__name__ == "Conv1D" and cls.__module__ == "transformers.pytorch_utils"


def _oriented(module: nn.Module) -> Tensor:
    """Return the weight as `[out, in]`."""
    weight = _weight(module).detach()
    return weight.t() if _is_conv1d(module) else weight


def _weight(module: nn.Module) -> Tensor:
    return module.get_parameter("weight")


def _replacement(
    module: nn.Module, codes: Tensor, exponents: Tensor, block: int, quantize_values: bool
) -> nn.Module:
    weight = _weight(module)
    if isinstance(module, nn.Embedding):
        new: nn.Module = MXInt8Embedding(codes, exponents, block, weight.dtype, module.padding_idx)
    else:
        bias = module._parameters["bias"]
        new = MXInt8Linear(codes, exponents, bias, block, weight.dtype, quantize_values)
    return new.train(module.training)
