"""Elements of a stream at indices that stream (torch.gather), along one dimension.

Every index is compared with every place: short rows are meant. An index that is no place gives 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, along_batch, example
from mase_hw.ops._composite import Composite


class Gather(Composite):
    """A choice for each place, of which one is not zero, and their sum."""

    name = "gather"
    targets = ("aten.gather.default",)
    operand_names: Mapping[str, str] = {"self": "data_in_0", "index": "data_in_1"}

    def problems(self, call: Call) -> list[str]:
        """Refuse to select inferences, and shapes that differ elsewhere."""
        return self._refusal(call) or super().problems(call)

    @staticmethod
    def _refusal(call: Call) -> list[str]:
        data, index = (call.operands[name].shape for name in ("data_in_0", "data_in_1"))
        dim = int(call.attributes["dim"]) % len(data)
        if dim == 0:
            return [along_batch("it selects along", "name another dimension")]
        if any(data[place] != index[place] for place in range(1, len(data)) if place != dim):
            return [f"its indices {list(index)} are fewer than its elements {list(data)}"]
        return []

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        if self._refusal(call):
            return None
        shape = call.operands["data_in_0"].shape
        dim, last = int(call.attributes["dim"]) % len(shape), len(shape) - 1
        data, index = (
            item if dim == last else aten.transpose.int(item, dim, last)
            for item in (operands["data_in_0"], operands["data_in_1"])
        )
        places = torch.arange(shape[dim])
        chosen = aten.eq.Tensor(aten.unsqueeze.default(index, -1), places)
        row = aten.unsqueeze.default(data, -2)
        nothing = 0.0 if call.result.dtype.startswith(("float", "bfloat")) else 0
        found = aten.sum.dim_IntList(aten.where.ScalarOther(chosen, row, nothing), [-1])
        return [found if dim == last else aten.transpose.int(found, dim, last)]

    def examples(self) -> list[Example]:
        """Indices of rows; of another dimension."""
        generator = torch.Generator().manual_seed(0)
        rows = torch.randint(0, 5, (2, 3, 2), generator=generator)
        columns = torch.randint(0, 3, (2, 4, 2), generator=generator)
        return [
            example(lambda x, i: torch.gather(x, -1, i), (2, 3, 5), rows),
            example(lambda x, i: torch.gather(x, 1, i), (2, 3, 2), columns),
        ]
