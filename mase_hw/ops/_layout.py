"""Operators that move elements and compute nothing.

They are a wire where the stream's order stays, and otherwise a double-buffered banked memory that
carries one beat per cycle.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from mase_hw.geometry.beats import Cycles, one_per_cycle
from mase_hw.geometry.reorder import ReorderPlan, is_wire, plan_reorder
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._base import Call, Hardware, Operator, Reference, Table
from mase_hw.ops._scalars import SCALARS, SCALED


class Layout(Operator):
    """Moves every element of its operand to another place.

    Subclasses give the move as a torch function on one tensor.
    """

    keeps_format: ClassVar[bool] = True
    casts: ClassVar[bool] = False
    formats: ClassVar[tuple[str, ...]] = (*SCALARS, SCALED)

    @abstractmethod
    def move(self, call: Call, tensor: Tensor) -> Tensor:
        """Return the moved elements of `[inferences, ...]`, or of one inference."""

    def problems(self, call: Call) -> list[str]:
        """Also refuse a move that mixes inferences."""
        found = super().problems(call)
        if call.operands["data_in_0"].elements != call.result.elements:
            found.append("elements of different inferences are mixed; keep the batch dimension")
        return found

    def reference(self, call: Call) -> Reference:
        """Return the move on codes."""
        return lambda codes: self.move(call, codes)

    def hardware(self, call: Call) -> Hardware | None:
        """Return None for a wire, else a reorder buffer with its tables."""
        plan = self._plan(call)
        if plan is None:
            return None
        lane_bits, bank_bits = _bits(call.operands["data_in_0"].lanes), _bits(plan.banks)
        address_bits, need_bits = _bits(plan.depth), _bits(len(plan.writes) + 1)
        writes = [
            _pack([((lane >= 0) << lane_bits) | max(lane, 0) for lane in row], lane_bits + 1)
            for row in plan.writes.tolist()
        ]
        reads = [
            _pack(
                [_pack(addresses, address_bits), _pack(banks, bank_bits), need],
                [plan.banks * address_bits, len(banks) * bank_bits, need_bits],
            )
            for addresses, banks, need in zip(
                plan.reads.tolist(), plan.selects.tolist(), plan.needs.tolist(), strict=True
            )
        ]
        read_bits = plan.banks * address_bits + call.result.lanes * bank_bits + need_bits
        return Hardware(
            "mase_reorder_fixed",
            {
                "BEATS_IN": len(plan.writes),
                "BEATS_OUT": len(plan.reads),
                "BANKS": plan.banks,
                "BANK_DEPTH": plan.depth,
            },
            tables=(
                Table("writes", "WRITE_FILE", plan.banks * (lane_bits + 1), writes),
                Table("reads", "READ_FILE", read_bits, reads),
            ),
            rounds=False,
            moves=True,
        )

    def schedule(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """A beat leaves 2 cycles after the last of its elements entered; a wire takes none."""
        offered = arrivals["data_in_0"]
        plan = self._plan(call)
        if plan is None:
            return offered
        accepted = one_per_cycle(offered).reshape(-1, len(plan.writes))
        ready = accepted[:, np.maximum(plan.needs.numpy() - 1, 0)] + 1
        return one_per_cycle(ready.reshape(-1)) + 1

    def room(self, call: Call, used: Mapping[str, Cycles], delay: int) -> dict[str, Cycles]:
        """Two whole tensors."""
        return {"data_in_0": np.full(call.operands["data_in_0"].beats, -1)}

    def operations(self, call: Call) -> int:
        """None."""
        return 0

    def _plan(self, call: Call) -> ReorderPlan | None:
        data, result = call.operands["data_in_0"], call.result
        index = torch.arange(data.elements).reshape(data.shape)
        moved = self.move(call, index)
        return _plan(data, result, tuple(moved.flatten().tolist()))


@lru_cache(maxsize=64)
def _plan(data: TensorSpec, result: TensorSpec, moved: tuple[int, ...]) -> ReorderPlan | None:
    beats_in = data.to_beats(torch.arange(data.elements), fill=-1)
    beats_out = result.to_beats(torch.tensor(moved), fill=-1)
    return None if is_wire(beats_in, beats_out) else plan_reorder(beats_in, beats_out)


def _bits(count: int) -> int:
    """Return the bits of an index below `count`, at least one."""
    return max(1, (count - 1).bit_length())


def _pack(values: list[int], widths: int | list[int]) -> int:
    """Return one word with the first value in the low bits."""
    word, shift = 0, 0
    for value, width in zip(
        values, widths if isinstance(widths, list) else [widths] * len(values), strict=True
    ):
        word |= value << shift
        shift += width
    return word
