"""Products of groups of rows, each with a matrix of its own, such as those of experts.

`y_r = x_r W_g` for the rows r of group g (torch.nn.functional.grouped_mm, and what transformers
computes in its place). Groups follow each other, `ends` holds the row behind the last of each. With
constant matrices it is a linear layer of groups, which is configured as any other, and of one group
a linear layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example, example_values, torch_target
from mase_hw.ops.products._constant_product import ConstantProduct

TARGET = "mase.grouped_linear.default"


def _runs(ends: Tensor) -> Iterator[tuple[int, slice]]:
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


class GroupedProduct(ConstantProduct):
    """A product with the matrix of a row's group."""

    name = "grouped_product"
    targets = ("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default")
    operand_names: Mapping[str, str] = {
        "input": "data_in_0",
        "self": "data_in_0",
        "weight": "data_in_1",
        "mat2": "data_in_1",
        "offs": "ends",
    }

    def refusals(self, call: Call) -> list[str]:
        shapes = [len(spec.shape) for spec in call.operands.values()]
        if set(call.operands) != {"data_in_0", "data_in_1", "ends"} or shapes != [2, 3, 1]:
            return ["its operands are other than rows, a matrix for each group, and their ends"]
        if set(call.constants) - {"ends"} != {"data_in_1"}:
            return ["its matrices are computed by the model; make them constant"]
        return []

    def layer(self, call: Call, operands: Mapping[str, Tensor]) -> Any:
        weight = aten.transpose.int(operands["data_in_1"], -2, -1)
        if call.operands["data_in_1"].shape[0] == 1:
            return aten.linear.default(operands["data_in_0"], aten.select.int(weight, 0, 0))
        grouped: Any = torch_target(TARGET)
        return grouped(operands["data_in_0"], weight, operands["ends"])

    def examples(self) -> list[Example]:
        import transformers.integrations.moe  # noqa: F401

        def alone(x: Tensor, weight: Tensor) -> Tensor:
            ends = torch.ones_like(x[:, 0], dtype=torch.int32).sum(0, True, dtype=torch.int32)
            grouped: Any = torch_target(self.targets[1])
            result: Tensor = grouped(x, weight, ends)
            return result

        return [example(Apply(alone, example_values(1, 8, 4, seed=1)), (3, 8))]
