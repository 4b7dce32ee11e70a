"""What a model computes of a position alone, written as the row of a table."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mase_hw.ops._masking import EXCLUDED

_aten = torch.ops.aten


def looked_up(position: object, values: Tensor) -> Any:
    """Return what stands for `values[position]`, the position being a tensor of one element.

    What is true, or what is added to the scores that are seen, is a row of ones and zeros.

    Args:
        position: stands for a tensor of one whole number.
        values: `[positions, *shape]`.
    """
    rows, shape = values.flatten(1), list(values.shape[1:])
    position = _aten.reshape.default(position, [1])
    if values.dtype is torch.bool:
        return _aten.reshape.default(_where_not_zero(position, rows), [-1, *shape[1:]])
    seen = rows > EXCLUDED
    if not bool(seen.all()) and bool(((rows == 0) | ~seen).all()):
        kept = _where_not_zero(position, seen)
        mask = _aten.where.Scalar(kept, 0.0, torch.finfo(values.dtype).min)
        return _aten.reshape.default(mask, [-1, *shape[1:]])
    return _aten.reshape.default(_aten.embedding.default(rows, position), shape)


def _where_not_zero(position: object, rows: Tensor) -> Any:
    return _aten.ne.Scalar(_aten.embedding.default(rows.float(), position), 0)
