"""How hardware rounds exact values to any format."""

from __future__ import annotations

from mase_hw.arithmetic.scalars import scalar_problems
from mase_hw.geometry.blocks import block_problems, is_block
from mase_hw.geometry.tensor import TensorSpec


def result_problems(spec: TensorSpec) -> list[str]:
    """Return why hardware cannot round to a result's format; empty when it can."""
    if is_block(spec):
        return block_problems("data_out_0", spec)
    return scalar_problems("data_out_0", spec.quantized, result=True)
