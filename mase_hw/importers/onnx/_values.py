"""What flows between the nodes of an ONNX graph: tensors, constants, integer codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import CaptureError
from mase_hw.formats import Format
from mase_hw.ops.infrastructure.fake_quantize import format_of, rounded

# Elements of any one tensor of a file.
MAX_ELEMENTS = 1 << 28


@dataclass(frozen=True)
class Levels:
    """How integer codes stand for real numbers: `(code - zero_point) * scale`.

    Attributes:
        scale: of the tensor, or of each channel.
        zero_point: as many.
        axis: dimension of the channels.
        low: the least code.
        high: the largest code.
        rounding: of reals to codes.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int
    low: int
    high: int
    rounding: str = "nearest_even"

    @property
    def number(self) -> Format | None:
        """Their number format; None where there is none."""
        return format_of(vars(self))

    def rounded(self, values: Tensor) -> Tensor:
        """Return the nearest reals that have a code."""
        ends = self.low, self.high
        return rounded(values, self.scale, self.zero_point, self.axis, *ends, self.rounding)


@dataclass(frozen=True)
class Constant:
    """What a file gives, or what is computed of sizes alone.

    Attributes:
        array: the numbers; of dtype object where sizes are symbols of a dynamic batch.
        tensor: the same in torch, the parameter or buffer of an initialiser.
        levels: to which the numbers are rounded already, and any in their place are.
    """

    array: np.ndarray[Any, Any]
    tensor: Tensor | None = None
    levels: Levels | None = None


@dataclass(frozen=True)
class Codes:
    """Integer codes, held as the real numbers for which they stand.

    Attributes:
        values: real numbers; of an input of the graph, which nothing has rounded yet, any.
        levels: how the codes read; None for such an input.
        low: the least code that its type holds.
        high: the largest.
    """

    values: Tensor
    levels: Levels | None
    low: int
    high: int


Value = Tensor | Constant | Codes | None


@dataclass(frozen=True)
class NodeCall:
    """One node of the file, as the function that computes it sees it.

    Attributes:
        name: its name in the file.
        type: ONNX operator.
        domain: of the operator; empty for ONNX's own.
        version: of the domain's operators.
        attributes: those that the file gives.
        results: how many it has.
    """

    name: str
    type: str
    domain: str
    version: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    results: int = 1

    def __str__(self) -> str:
        """Return type and name."""
        return f"node {self.name!r} ({self.type})"

    def get(self, name: str, default: object = None) -> Any:
        """Return an attribute of the node by name."""
        return self.attributes.get(name, default)

    def refuse(self, what: str) -> CaptureError:
        """Return the error of a node that cannot be computed."""
        return CaptureError(f"{self}: {what}")

    def array(self, value: Value, what: str) -> np.ndarray[Any, Any]:
        """Return an operand that must be constant."""
        if isinstance(value, Constant):
            return value.array
        raise self.refuse(f"its {what} is computed by the model; allowed is a constant")

    def setting(
        self, name: str, values: tuple[Value, ...], index: int, default: object = None
    ) -> list[int] | Any:
        """Return what older versions give as an attribute, and newer ones as an operand."""
        if name in self.attributes:
            return self.attributes[name]
        if index < len(values) and values[index] is not None:
            array = self.array(values[index], name)
            return array.tolist()
        return default

    def tensor(self, value: Value, what: str = "operand") -> Tensor:
        """Return an operand as a tensor of torch."""
        if isinstance(value, Tensor):
            return value
        if isinstance(value, Codes):
            raise self.refuse(f"its {what} is integer codes; DequantizeLinear makes reals of them")
        if value is None:
            raise self.refuse(f"its {what} is missing")
        found = value.tensor
        if found is None and value.array.dtype == object:
            found = torch.tensor(value.array.tolist())
        elif found is None:
            found = torch.from_numpy(np.array(value.array))
        return found if value.levels is None else value.levels.rounded(found)


Function = Callable[..., Any]


def sizes(array: np.ndarray[Any, Any]) -> list[Any]:
    """Return whole numbers, which symbols of a dynamic batch may be among."""
    return [item if not isinstance(item, np.generic) else int(item) for item in array.reshape(-1)]
