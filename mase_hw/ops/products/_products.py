"""The choice of the arithmetic of a sum of products: one for every call, made here."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mase_hw.arithmetic.fixed_point import is_fixed
from mase_hw.geometry.blocks import is_block
from mase_hw.ops._base import Call
from mase_hw.ops.products._block_product import BlockProduct
from mase_hw.ops.products._fixed_product import FixedProduct
from mase_hw.ops.products._product import Product
from mase_hw.ops.products._scalar_product import ScalarProduct
from mase_hw.ops.products._scaled_product import ScaledProduct, serves


def product_of(call: Call, matrix: Callable[[Tensor], Tensor], row: int, axis: int) -> Product:
    """Return the product that computes a call.

    Args:
        call: an operator's call.
        matrix: takes the weight, or its codes, to `[results, terms]`.
        row: terms of a row of blocks.
        axis: dimension of the results in the result.
    """
    if serves(call):
        return ScaledProduct(call, matrix, row, axis)
    if is_fixed(*call.operands.values(), call.result):
        return FixedProduct(call, matrix, row, axis)
    kind = BlockProduct if is_block(call.operands["data_in_0"]) else ScalarProduct
    return kind(call, matrix, row, axis)
