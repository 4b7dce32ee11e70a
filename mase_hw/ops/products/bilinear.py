"""A product of two tensors and a constant between, `y_o = x^T W_o z + b_o` (torch.nn.Bilinear)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops._composite import Composite


class Bilinear(Composite):
    """A linear layer of the first tensor, and its product with the second."""

    name = "bilinear"
    targets = ("aten.bilinear.default",)
    operand_names: Mapping[str, str] = {
        "input1": "data_in_0",
        "input2": "data_in_1",
        "weight": "weight",
        "bias": "bias",
    }

    def problems(self, call: Call) -> list[str]:
        if not {"weight", "bias"} & set(call.operands) <= set(call.constants):
            return ["weight or bias is computed by the model; only constants are legal"]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the layer, a product of matrices, and a sum."""
        if "weight" not in call.constants:
            return None
        results, first, second = call.operands["weight"].shape
        rows = list(call.result.shape[1:-1])
        weight = aten.permute.default(operands["weight"], [0, 2, 1])
        weight = aten.reshape.default(weight, [results * second, first])
        made = aten.linear.default(operands["data_in_0"], weight)
        made = aten.reshape.default(made, [-1, *rows, results, second])
        other = aten.unsqueeze.default(operands["data_in_1"], -1)
        made = aten.squeeze.dim(aten.matmul.default(made, other), -1)
        if "bias" in operands:
            made = aten.add.Tensor(made, operands["bias"])
        return [made]

    def examples(self) -> list[Example]:
        """With a bias and without one."""
        given = example_values(2, 3), example_values(2, 4, seed=1)
        return [(nn.Bilinear(3, 4, 2), given), (nn.Bilinear(3, 4, 3, bias=False), given)]
