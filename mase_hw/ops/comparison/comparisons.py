"""Comparisons of two numbers: 1 where they hold, else 0."""

from __future__ import annotations

import torch

from mase_hw.ops.comparison._comparison import Comparison


class Equal(Comparison):
    """Where both are equal, 1, else 0 (torch.eq)."""

    name = "equal"
    targets = ("aten.eq.Tensor", "aten.eq.Scalar")
    operation = "equal"
    relation = torch.eq


class NotEqual(Comparison):
    """Where both differ, 1, else 0 (torch.ne)."""

    name = "not_equal"
    targets = ("aten.ne.Tensor", "aten.ne.Scalar")
    operation = "not_equal"
    relation = torch.ne


class Greater(Comparison):
    """Where the first is larger, 1, else 0 (torch.gt)."""

    name = "greater"
    targets = ("aten.gt.Tensor", "aten.gt.Scalar")
    operation = "greater"
    relation = torch.gt


class GreaterEqual(Comparison):
    """Where the first is not less, 1, else 0 (torch.ge)."""

    name = "greater_equal"
    targets = ("aten.ge.Tensor", "aten.ge.Scalar")
    operation = "greater_equal"
    relation = torch.ge


class Less(Comparison):
    """Where the first is less, 1, else 0 (torch.lt)."""

    name = "less"
    targets = ("aten.lt.Tensor", "aten.lt.Scalar")
    operation = "less"
    relation = torch.lt


class LessEqual(Comparison):
    """Where the first is not larger, 1, else 0 (torch.le)."""

    name = "less_equal"
    targets = ("aten.le.Tensor", "aten.le.Scalar")
    operation = "less_equal"
    relation = torch.le
