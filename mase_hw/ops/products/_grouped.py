"""Linear layers of groups of rows, a torch operator: `y_r = x_r W_g^T` for the rows r of group g.

Groups follow each other, `ends` holds the row behind the last of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

TARGET = "mase.grouped_linear.default"


def _runs(ends: Tensor) -> Iterator[tuple[int, slice]]:
    """Yield every group with its rows."""
    start = 0
    for group, end in enumerate(ends.tolist()):
        yield group, slice(start, end)
        start = end


@torch.library.custom_op("mase::grouped_linear", mutates_args=())
def grouped_linear(values: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """Return the results `[rows, results]` of `[rows, features]`, `[groups, results, features]`."""
    results = values.new_zeros(len(values), weight.shape[1])
    for group, rows in _runs(ends):
        results[rows] = values[rows] @ weight[group].T
    return results


@torch.library.custom_op("mase::grouped_outer", mutates_args=())
def grouped_outer(left: Tensor, right: Tensor, ends: Tensor) -> Tensor:
    """Return `left^T right` of the rows of every group."""
    products = left.new_zeros(len(ends), left.shape[1], right.shape[1])
    for group, rows in _runs(ends):
        products[group] = left[rows].T @ right[rows]
    return products


@grouped_linear.register_fake
def _(values: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    return values.new_empty(values.shape[0], weight.shape[1])


@grouped_outer.register_fake
def _(left: Tensor, right: Tensor, ends: Tensor) -> Tensor:
    return left.new_empty(ends.shape[0], left.shape[1], right.shape[1])


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    values, weight, ends = ctx.saved_tensors
    needed = ctx.needs_input_grad
    back = torch.ops.mase.grouped_linear(gradient, weight.mT, ends) if needed[0] else None
    return back, torch.ops.mase.grouped_outer(gradient, values, ends) if needed[1] else None, None


grouped_linear.register_autograd(_gradients, setup_context=_keep)
