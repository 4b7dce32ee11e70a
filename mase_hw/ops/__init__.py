"""Operators, found by walking this folder and the entry points `mase_hw.operators`."""

from __future__ import annotations

from functools import cache

from mase_hw.errors import UnitError
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import (
    OPERAND_NAMES,
    Apply,
    Call,
    Example,
    Operator,
    Reference,
    example_values,
    torch_target,
    unformatted,
)
from mase_hw.ops._interface import Interface
from mase_hw.ops._interfaces import (
    ANY_NUMBER,
    STATE,
    Affine,
    Borrowed,
    Broadcasting,
    Choosing,
    Commutative,
    Configured,
    Elementwise,
    Exact,
    Foldable,
    Gained,
    Growing,
    Judged,
    Multiplying,
    Normalizing,
    Numeric,
    Ordered,
    Prepared,
    Ranking,
    Recognized,
    Removable,
    Rescaled,
    Rewritten,
    Selecting,
    Stateful,
    Summing,
    Tiled,
    Weighted,
    WholeNumbers,
    carried,
    not_carried,
)
from mase_hw.ops._masking import EXCLUDED, Mask, Masked, Masking, Repeating, maskings, scaling
from mase_hw.ops._positions import looked_up
from mase_hw.ops._unary import Unary
from mase_hw.registry import discover, instances

__all__ = [
    "ANY_NUMBER",
    "EXCLUDED",
    "OPERAND_NAMES",
    "STATE",
    "Affine",
    "Apply",
    "Borrowed",
    "Broadcasting",
    "Call",
    "Choosing",
    "Commutative",
    "Configured",
    "Elementwise",
    "Exact",
    "Example",
    "Foldable",
    "Gained",
    "Growing",
    "Interface",
    "Judged",
    "Mask",
    "Masked",
    "Masking",
    "Multiplying",
    "Normalizing",
    "Numeric",
    "Operator",
    "Order",
    "Ordered",
    "Prepared",
    "Ranking",
    "Recognized",
    "Reference",
    "Removable",
    "Repeating",
    "Rescaled",
    "Rewritten",
    "Selecting",
    "Stateful",
    "Summing",
    "TensorSpec",
    "Tiled",
    "Unary",
    "Weighted",
    "WholeNumbers",
    "carried",
    "example_values",
    "looked_up",
    "maskings",
    "not_carried",
    "operator_for",
    "operator_for_role",
    "operators",
    "scaling",
    "torch_target",
    "unary_operators",
    "unformatted",
]


@cache
def operators() -> dict[str, Operator]:
    """Return every operator by its name, in the order of names."""
    units = list(instances(__name__, Operator))  # type: ignore[type-abstract]
    units += [cls() for cls in discover(__name__, Operator, "mase_hw.operators")]  # type: ignore[type-abstract]
    return {unit.name: unit for unit in sorted(units, key=lambda unit: unit.name)}


@cache
def _by_target() -> dict[str, Operator]:
    by_target: dict[str, Operator] = {}
    for operator in operators().values():
        for target in operator.targets:
            other = by_target.setdefault(target, operator)
            if other is not operator:
                raise UnitError(f"{other.name} and {operator.name} both have the target {target}")
    return by_target


def operator_for(target: object) -> Operator | None:
    """Return the operator of an ATen overload, or None when there is none."""
    return _by_target().get(str(target))


def operator_for_role(role: str) -> Operator:
    """Return the operator that passes insert for `role` (`cast`, `retile`, `broadcast`, ...)."""
    return next(item for item in operators().values() if role in _roles(item))


def _roles(operator: Operator) -> tuple[str | None, ...]:
    return (operator.role, operator.also_for if isinstance(operator, Borrowed) else None)


def unary_operators() -> list[Unary]:
    """Return every element-wise function."""
    return [operator for operator in operators().values() if isinstance(operator, Unary)]
