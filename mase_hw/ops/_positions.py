"""What a model computes of a position alone, written as the row of a table."""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._masking import EXCLUDED


def looked_up(position: object, values: Tensor) -> Tensor:
    """Element `values[position]`, the position being a tensor of one element.

    What is true, or what is added to the scores that are seen, is a row of ones and zeros.

    Args:
        position: stands for a tensor of one whole number.
        values: `[positions, *shape]`.
    """
    rows, shape = values.flatten(1), list(values.shape[1:])
    position = aten.reshape.default(position, [1])
    if values.dtype is torch.bool:
        return aten.reshape.default(_where_not_zero(position, rows), [-1, *shape[1:]])
    seen = rows > EXCLUDED
    if not bool(seen.all()) and bool(((rows == 0) | ~seen).all()):
        kept = _where_not_zero(position, seen)
        mask = aten.where.Scalar(kept, 0.0, torch.finfo(values.dtype).min)
        return aten.reshape.default(mask, [-1, *shape[1:]])
    return aten.reshape.default(aten.embedding.default(rows, position), shape)


def _where_not_zero(position: object, rows: Tensor) -> Tensor:
    return aten.ne.Scalar(aten.embedding.default(rows.float(), position), 0)
