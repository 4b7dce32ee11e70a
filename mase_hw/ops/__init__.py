"""Operators, found by walking this folder and the entry points `mase_hw.operators`."""

from __future__ import annotations

from functools import cache
from typing import Any

from mase_hw._registry import discover
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import (
    ANY_NUMBER,
    OPERAND_NAMES,
    STATE,
    AddsUp,
    Apply,
    Call,
    Example,
    Operator,
    Reference,
    example_values,
    torch_target,
)
from mase_hw.ops._masking import EXCLUDED, Mask, Masking, maskings, scaling
from mase_hw.ops._positions import looked_up
from mase_hw.ops._unary import Unary

__all__ = [
    "ANY_NUMBER",
    "EXCLUDED",
    "OPERAND_NAMES",
    "STATE",
    "AddsUp",
    "Apply",
    "Call",
    "Example",
    "Mask",
    "Masking",
    "Operator",
    "Order",
    "Reference",
    "TensorSpec",
    "Unary",
    "example_values",
    "looked_up",
    "maskings",
    "operator_for",
    "operator_for_role",
    "operators",
    "scaling",
    "torch_target",
    "unary_operators",
]


@cache
def operators() -> dict[str, Operator]:
    """Return one instance of every operator by its name."""
    return {cls.name: cls() for cls in discover(__name__, Operator, "mase_hw.operators")}  # type: ignore[type-abstract]


@cache
def _by_target() -> dict[str, Operator]:
    return {target: operator for operator in operators().values() for target in operator.targets}


def operator_for(target: Any) -> Operator | None:
    """Return the operator of an ATen overload, or None when there is none."""
    return _by_target().get(str(target))


def operator_for_role(role: str) -> Operator:
    """Return the operator that passes insert for `role` (`cast`, `retile`, `broadcast`, ...)."""
    found = (item for item in operators().values() if role in (item.role, item.also_for))
    return next(found)


def unary_operators() -> list[Unary]:
    """Return every element-wise function."""
    return [operator for operator in operators().values() if isinstance(operator, Unary)]
