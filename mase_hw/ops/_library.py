"""Torch operators of our own, for what ATen has no operator for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

NAMESPACE = "mase"
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]


def define(name: str, function: Callable[[Tensor], Tensor]) -> None:
    """Register `torch.ops.mase.<name>`: one tensor in, `function` of it out, differentiable."""
    _LIBRARY.define(f"{name}(Tensor self) -> Tensor")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def define_identity(name: str) -> None:
    """Register `torch.ops.mase.<name>`, which returns a copy: what passes insert."""
    define(name, torch.clone)


def define_numbered(
    name: str, given: str, function: Callable[..., Tensor], *, opaque: bool = False
) -> None:
    """Register `torch.ops.mase.<name>`, whose further arguments say which of several it is.

    Args:
        name: of the operator.
        given: its arguments, as a torch schema names them.
        function: of the first one, and of what else the result depends on.
        opaque: whether captures keep it whole; it has no gradient then, and its result is like the
            first argument.
    """
    key = "CompositeExplicitAutograd" if opaque else "CompositeImplicitAutograd"
    _LIBRARY.define(f"{name}({given}) -> Tensor")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, key)  # type: ignore[no-untyped-call]
    if opaque:
        _LIBRARY.impl(name, _like, "Meta")  # type: ignore[no-untyped-call]


def _like(values: Tensor, *given: object, **named: object) -> Tensor:
    return torch.empty_like(values)


def define_sized(name: str, function: Callable[[Tensor, list[int]], Tensor]) -> None:
    """Register `torch.ops.mase.<name>(values, size)`, which returns `function` of both."""
    _LIBRARY.define(f"{name}(Tensor self, SymInt[] size) -> Tensor")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def define_joining(name: str, function: Callable[..., Tensor]) -> None:
    """Register `torch.ops.mase.<name>(tensors, dim)`, which returns `function` of both."""
    _LIBRARY.define(f"{name}(Tensor[] tensors, int dim=0) -> Tensor")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def define_placing(name: str, function: Callable[..., Tensor]) -> None:
    """Register `torch.ops.mase.<name>(values, others, places)`, `function` of all of them."""
    _LIBRARY.define(f"{name}(Tensor self, Tensor others, Tensor places) -> Tensor")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def define_reducing(name: str, function: Callable[..., Tensor]) -> None:
    """Register `torch.ops.mase.<name>(values, dim, keepdim)`, which returns `function` of them."""
    _LIBRARY.define(f"{name}(Tensor self, int[] dim, bool keepdim=False) -> Tensor")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def define_masked(name: str, function: Callable[..., Tensor]) -> None:
    """Register `torch.ops.mase.<name>(values, mask, dim, scale, kept)`, `function` of them."""
    signature = "(Tensor self, Tensor? mask, int dim, float scale=1.0, Tensor? kept=None) -> Tensor"
    _LIBRARY.define(f"{name}{signature}")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def define_attention(name: str, function: Callable[..., Tensor]) -> None:
    """Register `torch.ops.mase.<name>(query, key, value, kept, attn_mask, ...)`, `function`."""
    signature = (
        "(Tensor query, Tensor key, Tensor value, Tensor kept, Tensor? attn_mask=None, "
        "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"
    )
    _LIBRARY.define(f"{name}{signature}")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def define_cache(name: str, function: Callable[..., Tensor]) -> None:
    """Register `torch.ops.mase.<name>(values, position, dim, places)`, `function` of them."""
    signature = "(Tensor self, Tensor position, int dim, int places) -> Tensor"
    _LIBRARY.define(f"{name}{signature}")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def define_normalizing(name: str, function: Callable[..., Tensor]) -> None:
    """Register `torch.ops.mase.<name>(values, weight, eps)`, `function` of all of them."""
    signature = "(Tensor self, Tensor? weight=None, *, float eps) -> Tensor"
    _LIBRARY.define(f"{name}{signature}")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def define_listed(name: str, function: Callable[..., Tensor], dtype: torch.dtype | None) -> None:
    """Register `torch.ops.mase.<name>(values, rows, columns, kernel)`, `function` of them.

    Args:
        name: of the operator.
        function: reduces listed windows.
        dtype: of its result; that of the values when None.
    """

    def shape(values: Tensor, rows: list[int], columns: list[int], kernel: list[int]) -> Tensor:
        size = (*values.shape[:2], len(rows) // kernel[0], len(columns) // kernel[1])
        return values.new_empty(size, dtype=dtype)

    signature = "(Tensor self, int[] rows, int[] columns, int[] kernel) -> Tensor"
    _LIBRARY.define(f"{name}{signature}")  # type: ignore[no-untyped-call]
    for key, kernel_function in (("CPU", function), ("CUDA", function), ("Meta", shape)):
        _LIBRARY.impl(name, kernel_function, key)  # type: ignore[no-untyped-call]


def define_fractional(name: str, function: Callable[..., tuple[Tensor, Tensor]]) -> None:
    """Register `torch.ops.mase.<name>(values, kernel_size, output_size, samples)`, two results."""

    def shapes(values: Tensor, kernel: object, size: list[int], samples: Tensor) -> object:
        found = values.new_empty((*values.shape[:2], *size))
        return found, torch.empty_like(found, dtype=torch.int64)

    given = "Tensor self, int[] kernel_size, int[] output_size, Tensor samples"
    _LIBRARY.define(f"{name}({given}) -> (Tensor, Tensor)")  # type: ignore[no-untyped-call]
    for key, kernel_function in (("CPU", function), ("CUDA", function), ("Meta", shapes)):
        _LIBRARY.impl(name, kernel_function, key)  # type: ignore[no-untyped-call]


def define_queue(name: str) -> None:
    """Register `torch.ops.mase.<name>(values, depth)`, which returns a copy."""
    _LIBRARY.define(f"{name}(Tensor self, int depth) -> Tensor")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, _queued, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def define_order(name: str, function: Callable[..., Tensor]) -> None:
    """Register `torch.ops.mase.<name>(values, width, ...)`: `function` of a float's layout."""
    layout = "int width, int exponent_width, int exponent_bias"
    signature = f"(Tensor self, {layout}, bool back) -> Tensor"
    _LIBRARY.define(f"{name}{signature}")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]


def define_thresholds(name: str, function: Callable[..., Tensor]) -> None:
    """Register `torch.ops.mase.<name>(values, bounds, signs, lowest, step)`, `function` of them."""
    signature = "(Tensor self, Tensor bounds, Tensor signs, float lowest, float step) -> Tensor"
    _LIBRARY.define(f"{name}{signature}")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]


def define_steps(name: str, function: Callable[..., Tensor]) -> None:
    """Register `torch.ops.mase.<name>(values, scale, back, bits)`, `function` of them."""
    _LIBRARY.define(f"{name}(Tensor self, float scale, bool back, int bits=0) -> Tensor")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]


def _queued(values: Tensor, depth: int) -> Tensor:
    return values.clone()


def _rows_like(values: Tensor, like: Tensor) -> Tensor:
    return values.repeat(like.shape[0], *[1] * (values.dim() - 1))


_LIBRARY.define("rows_like(Tensor self, Tensor like) -> Tensor")  # type: ignore[no-untyped-call]
# Rows again and again, for every row of another tensor; what a batch and a constant have merged in
# one dimension is made of.
_LIBRARY.impl("rows_like", _rows_like, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]
