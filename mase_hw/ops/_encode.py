"""How hardware rounds exact values to any format."""

from __future__ import annotations

from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._blocks import block_problems, is_block
from mase_hw.ops._scalars import scalar_problems


def result_problems(spec: TensorSpec) -> list[str]:
    """Return why hardware cannot round to a result's format; empty when it can."""
    if is_block(spec):
        return block_problems("data_out_0", spec)
    return scalar_problems("data_out_0", spec.quantized, result=True)
