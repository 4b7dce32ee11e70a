"""Root mean square normalisation, `y = x / sqrt(mean x^2 + eps) * weight` (arXiv:1910.07467).

Sums are exact, and the result is rounded once: see `mase_hw/approximation/row_norm.py` for the
integers. The result is less than one step from the exact one, or one and a half where it is rounded
down or towards zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example, example_values
from mase_hw.ops._library import define
from mase_hw.ops._rewriting import ANY_NUMBER, Recognized, Spelling
from mase_hw.ops.normalisation._row_norm import RowNorm


def _normalized(values: Tensor, weight: Tensor | None = None, *, eps: float) -> Tensor:
    return torch.nn.functional.rms_norm(values, values.shape[-1:], weight, eps)


define("rms_norm(Tensor self, Tensor? weight=None, *, float eps) -> Tensor", _normalized)


class RMSNorm(RowNorm, Recognized):
    """Elements of the last dimensions over their root mean square."""

    name = "rms_norm"
    targets = ("mase.rms_norm.default", "aten.rms_norm.default")
    centred = False

    def epsilon(self, call: Call) -> float:
        """Constant that is added to the mean square: torch's, where none is given."""
        given = call.attributes.get("eps")
        if given is not None:
            return float(given)
        dtype: torch.dtype = getattr(torch, call.operands["data_in_0"].dtype)
        return torch.finfo(dtype).eps

    def normalize(self, operands: Mapping[str, Tensor], size: list[int], epsilon: float) -> Tensor:
        return aten.rms_norm.default(operands["data_in_0"], size, operands.get("weight"), epsilon)

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        """Yield it as models of language write it out; the weight is folded behind."""
        mean = (x**2).mean(-1, keepdim=True) + ANY_NUMBER
        for result in (x * torch.rsqrt(mean), x / torch.sqrt(mean), x * mean ** (-0.5)):
            yield result, {"eps": ANY_NUMBER}

    def examples(self) -> list[Example]:
        norm = nn.RMSNorm(7, eps=1e-5)
        with torch.no_grad():
            norm.weight.copy_(example_values(7, seed=1))
        return [
            (norm, (example_values(3, 2, 7),)),
            example(nn.RMSNorm(4, elementwise_affine=False), (3, 4)),
            example(
                Apply(
                    lambda x, w: w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
                    example_values(5, seed=1),
                ),
                (3, 2, 5),
            ),
        ]
