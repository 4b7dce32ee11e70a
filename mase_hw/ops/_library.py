"""Torch operators of our own, where ATen has none."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

NAMESPACE = "mase"
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]


def define(
    schema: str,
    function: Callable[..., object],
    *,
    opaque: bool = False,
    shapes: Callable[..., object] | None = None,
) -> None:
    """Register `torch.ops.mase.<name>`.

    Args:
        schema: name, arguments and results in torch's notation, `take(Tensor self, int index) ->
            Tensor`.
        function: computes the results.
        opaque: true for an operator without gradient that captures keep whole; capture sees the
            torch operators that any other one calls.
        shapes: computes empty results, where `function` cannot run on tensors without data.
    """
    key = "CompositeExplicitAutograd" if opaque else "CompositeImplicitAutograd"
    _LIBRARY.define(schema)  # type: ignore[no-untyped-call]
    _LIBRARY.impl(schema.partition("(")[0], function, key)  # type: ignore[no-untyped-call]
    if shapes is not None:
        _LIBRARY.impl(schema.partition("(")[0], shapes, "Meta")  # type: ignore[no-untyped-call]


def copied(values: Tensor, *arguments: object, **keywords: object) -> Tensor:
    """Return a copy: what an operator computes that concerns hardware alone."""
    return values.clone()
