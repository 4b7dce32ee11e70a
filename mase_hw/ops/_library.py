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


def define_sized(name: str, function: Callable[[Tensor, list[int]], Tensor]) -> None:
    """Register `torch.ops.mase.<name>(values, size)`, which returns `function` of both."""
    _LIBRARY.define(f"{name}(Tensor self, SymInt[] size) -> Tensor")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def define_joining(name: str, function: Callable[..., Tensor]) -> None:
    """Register `torch.ops.mase.<name>(tensors, dim)`, which returns `function` of both."""
    _LIBRARY.define(f"{name}(Tensor[] tensors, int dim=0) -> Tensor")  # type: ignore[no-untyped-call]
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
    """Register `torch.ops.mase.<name>(values, scale, back)`, `function` of them."""
    _LIBRARY.define(f"{name}(Tensor self, float scale, bool back) -> Tensor")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, function, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]


def _queued(values: Tensor, depth: int) -> Tensor:
    return values.clone()


def _rows_like(values: Tensor, like: Tensor) -> Tensor:
    return values.repeat(len(like), *[1] * (values.dim() - 1))


_LIBRARY.define("rows_like(Tensor self, Tensor like) -> Tensor")  # type: ignore[no-untyped-call]
# Rows again and again, for every row of another tensor; what a batch and a constant have merged in
# one dimension is made of.
_LIBRARY.impl("rows_like", _rows_like, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]
