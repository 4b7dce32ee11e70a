"""Comparisons, logic and choices that are written with other operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example, example_values
from mase_hw.ops._composite import composition


def refuse_bits(call: Call) -> list[str]:
    """Refuse operands that are whole numbers, whose bits torch combines."""
    if call.result.dtype != "bool":
        return ["it combines the bits of whole numbers; only masks have hardware"]
    return []


def truths(call: Call, operands: Sequence[Tensor]) -> list[Tensor]:
    """Return each operand as 0 and 1; numbers hold where they are not zero."""
    return [
        operand if spec.dtype == "bool" else aten.ne.Scalar(operand, 0)
        for spec, operand in zip(call.operands.values(), operands, strict=True)
    ]


def _refuse_sorter(call: Call) -> list[str]:
    if call.attributes.get("sorter") is not None:
        return ["its boundaries come in the order of a sorter; give them in order"]
    return []


@composition(
    "aten.bucketize.Tensor",
    "aten.searchsorted.Tensor",
    examples=lambda: [
        example(Apply(torch.bucketize, torch.tensor([-0.5, 0.25, 1.0])), (2, 5)),
        example(
            Apply(
                lambda x, b: torch.searchsorted(b, x, right=True), torch.tensor([-0.5, 0.25, 1.0])
            ),
            (2, 5),
        ),
        example(lambda b, x: torch.searchsorted(b.abs().cumsum(-1), x), (2, 5), (2, 3)),
    ],
    refusal=_refuse_sorter,
    operand_names={
        "self": "data_in_0",
        "boundaries": "boundaries",
        "sorted_sequence": "boundaries",
    },
)
def bucketize(call: Call, *operands: Tensor) -> Tensor:
    """Count of boundaries below a number (torch.bucketize, torch.searchsorted), in short rows."""
    right = call.attributes.get("right", False) or call.attributes.get("side") == "right"
    passed = aten.ge.Tensor if right else aten.gt.Tensor
    by_name = dict(zip(call.operands, operands, strict=True))
    numbers, boundaries = aten.unsqueeze.default(by_name["data_in_0"], -1), by_name["boundaries"]
    if len(call.operands["boundaries"].shape) > 1:
        boundaries = aten.unsqueeze.default(boundaries, -2)
    return aten.sum.dim_IntList(passed(numbers, boundaries), [-1])


@composition(
    "aten.heaviside.default",
    examples=lambda: [
        example(Apply(torch.heaviside, torch.tensor(0.5)), _with_zeros()),
        example(torch.heaviside, _with_zeros(), example_values(2, 5, seed=2)),
    ],
)
def heaviside(call: Call, data: Tensor, middle: Tensor) -> Tensor:
    """0 below zero, 1 above, and at zero the other operand (torch.heaviside)."""
    above = aten.where.Scalar(aten.gt.Scalar(data, 0), 1.0, 0.0)
    return aten.where.self(aten.eq.Scalar(data, 0), middle, above)


def _with_zeros() -> Tensor:
    return example_values(2, 5).relu() - example_values(2, 5, seed=1).relu()


@composition(
    "aten.isfinite.default",
    examples=lambda: [example(lambda x: torch.where(x.isfinite(), x, 0.0), (2, 5))],
)
def isfinite(call: Call, data: Tensor) -> Tensor:
    """True everywhere (torch.isfinite), as fixed point holds finite numbers alone."""
    return aten.eq.Tensor(data, data)


@composition(
    "aten.isnan.default",
    "aten.isinf.default",
    examples=lambda: [
        example(lambda x: torch.where(x.isnan(), 0.0, x), (2, 5)),
        example(lambda x: torch.where(x.isinf(), 0.0, x), (2, 5)),
    ],
)
def isnan(call: Call, data: Tensor) -> Tensor:
    """True nowhere (torch.isnan, torch.isinf), as fixed point holds finite numbers alone."""
    return aten.ne.Tensor(data, data)


@composition(
    "aten.signbit.default",
    examples=lambda: [example(lambda x: torch.where(torch.signbit(x), 0.5, x), (2, 5))],
)
def signbit(call: Call, data: Tensor) -> Tensor:
    """True below zero (torch.signbit)."""
    return aten.lt.Scalar(data, 0.0)


def _pairs(target: Callable[..., Tensor]) -> list[Example]:
    """Two masks; a mask and numbers, which hold where they are not zero."""
    return [
        example(lambda x, y: torch.where(target(x > 0, y < 0.25), x, 0.0), (2, 5), (2, 5)),
        example(lambda x, y: torch.where(target(x > 0, y), x, 0.0), (2, 5), (2, 5)),
    ]


@composition(
    "aten.logical_and.default",
    "aten.bitwise_and.Tensor",
    "aten.__and__.Tensor",
    examples=lambda: _pairs(aten.logical_and.default),
    refusal=refuse_bits,
)
def logical_and(call: Call, *masks: Tensor) -> Tensor:
    """1 where both hold, else 0 (torch.logical_and, `&` of masks)."""
    return aten.minimum.default(*truths(call, masks))


@composition(
    "aten.logical_or.default",
    "aten.bitwise_or.Tensor",
    "aten.__or__.Tensor",
    examples=lambda: _pairs(aten.logical_or.default),
    refusal=refuse_bits,
)
def logical_or(call: Call, *masks: Tensor) -> Tensor:
    """1 where one or both hold, else 0 (torch.logical_or, `|` of masks)."""
    return aten.maximum.default(*truths(call, masks))


@composition(
    "aten.logical_xor.default",
    "aten.bitwise_xor.Tensor",
    "aten.__xor__.Tensor",
    examples=lambda: _pairs(aten.logical_xor.default),
    refusal=refuse_bits,
)
def logical_xor(call: Call, *masks: Tensor) -> Tensor:
    """1 where one but not both hold, else 0 (torch.logical_xor, `^` of masks)."""
    return aten.ne.Tensor(*truths(call, masks))


@composition(
    "aten.logical_not.default",
    "aten.bitwise_not.default",
    examples=lambda: [
        example(lambda x: torch.where(~(x > 0), x, 0.0), (2, 5)),
        example(lambda x: (~(x > 0)).float() * 0.75, (2, 5)),
        example(lambda x: torch.where(~x.relu().bool(), 0.5, x), (2, 5)),
    ],
    refusal=refuse_bits,
)
def logical_not(call: Call, data: Tensor) -> Tensor:
    """1 where a tensor is zero, else 0 (torch.logical_not, `~` of a mask)."""
    return aten.eq.Scalar(data, 0)


def _refuse_fill(call: Call) -> list[str]:
    value = call.constants.get("value")
    if value is None or value.numel() != 1:
        return ["it fills with several numbers, or with computed ones; give one constant"]
    if not math.isfinite(float(value)):
        return [f"it fills with {float(value)}; give the least number that counts instead"]
    return []


@composition(
    "aten.masked_fill.Scalar",
    "aten.masked_fill.Tensor",
    examples=lambda: [
        example(lambda x: x.masked_fill(x < 0, 0.5), (2, 5)),
        example(
            Apply(lambda x, kept: x.masked_fill(kept, -1.0), example_values(5, seed=1) > 0), (2, 5)
        ),
    ],
    refusal=_refuse_fill,
    operand_names={"self": "data_in_0", "mask": "data_in_1", "value": "value"},
)
def masked_fill(call: Call, data: Tensor, mask: Tensor, *value: Tensor) -> Tensor:
    """A number where a mask holds, else the tensor (torch.Tensor.masked_fill)."""
    real = call.operands["data_in_0"].dtype.startswith(("float", "bfloat"))
    number = float(call.constants["value"]) if real else int(call.constants["value"])
    return aten.where.ScalarSelf(mask, number, data)
