"""What flows between the nodes of an ONNX graph: tensors, constants, integer codes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import CaptureError
from mase_hw.formats import Format
from mase_hw.ops.infrastructure.fake_quantize import format_of, rounded, rounded_to

# Elements of any one constant of a file, and of what is computed of an input.
MAX_ELEMENTS, MAX_COMPUTED = 1 << 28, 1 << 24


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
class Floats:
    """Floats of a format of ours, as levels of numbers.

    Attributes:
        number: the format.
    """

    number: Format

    def rounded(self, values: Tensor) -> Tensor:
        """Return the nearest floats."""
        return rounded_to(values, self.number)


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
    levels: Levels | Floats | None = None


@dataclass(frozen=True)
class Sums:
    """Sums of products of integer codes, which the model scales afterwards.

    Attributes:
        layer: from the real value of one unit of the sums, of all results or each, and their
            biases in reals, to the scaled sums.
        results: how many results have a unit of their own.
        dimension: of the results, from the last one on.
        units: real value of one unit, of all results or each.
        biases: in reals, of all results or each; empty where there are none.
    """

    layer: Callable[[tuple[Fraction, ...], tuple[Fraction, ...]], Tensor]
    results: int
    dimension: int
    units: tuple[Fraction, ...] = (Fraction(1),)
    biases: tuple[Fraction, ...] = ()

    @cached_property
    def values(self) -> Tensor:
        """The scaled sums, as one layer."""
        return self.layer(self.units, self.biases)

    def times(self, factors: Value) -> Sums | None:
        """Return the sums times constants, or a constant for each result; None for others."""
        given = self._each(factors)
        if given is None or min(given) <= 0:
            return None
        return replace(
            self, units=_both(operator.mul, self.units, given),
            biases=_both(operator.mul, self.biases, given) if self.biases else (),
        )  # fmt: skip

    def plus(self, biases: Value) -> Sums | None:
        """Return the sums and constants, or a constant for each result; None for others."""
        given = self._each(biases)
        if given is None:
            return None
        return replace(self, biases=_both(operator.add, self.biases or (Fraction(0),), given))

    def _each(self, value: Value) -> tuple[Fraction, ...] | None:
        """Return the one number of a constant, or those of each result."""
        if not isinstance(value, Constant) or not np.isfinite(value.array).all():
            return None
        array = value.array
        along = array.ndim + self.dimension
        each = along >= 0 and array.size == array.shape[along] == self.results
        if array.size != 1 and not each:
            return None
        return tuple(Fraction(float(item)) for item in array.reshape(-1))


def _both(
    function: Callable[[Fraction, Fraction], Fraction],
    first: tuple[Fraction, ...],
    second: tuple[Fraction, ...],
) -> tuple[Fraction, ...]:
    count = max(len(first), len(second))
    pairs = (item * (count if len(item) == 1 else 1) for item in (first, second))
    return tuple(map(function, *pairs))


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


Value = Tensor | Constant | Codes | Sums | None
# Attributes that restate what operands say, or concern training.
_IMPLIED = {"hidden_size", "kernel_shape", "ratio", "seed", "softmax_precision"}


class Attributes(dict[str, Any]):
    """Attributes of a node that remember which of them were asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute by name, or the default."""
        self.read.add(name)
        return super().get(name, default)


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

    def check_attributes(self) -> None:
        """Refuse an attribute that nothing has read, and that is not its default.

        Raises:
            CaptureError: naming it.
        """
        from onnx import defs, helper

        read = self.attributes.read if isinstance(self.attributes, Attributes) else self.attributes
        for name in set(self.attributes) - set(read) - _IMPLIED:
            try:
                schema = defs.get_schema(self.type, self.version, self.domain)
                default = helper.get_attribute_value(schema.attributes[name].default_value)
            except (defs.SchemaError, KeyError, ValueError):
                default = None
            value = self.attributes[name]
            if value != (default.decode() if isinstance(default, bytes) else default):
                raise self.refuse(f"its attribute {name} is {value!r}, which is not known")

    def refuse(self, what: str) -> CaptureError:
        """Return the error of a node that cannot be computed."""
        return CaptureError(f"{self}: {what}")

    def array(self, value: Value, what: str) -> np.ndarray[Any, Any]:
        """Return an operand that must be constant."""
        if isinstance(value, Constant):
            return value.array
        raise self.refuse(f"its {what} is computed by the model; allowed is a constant")

    def integer(self, value: Value, what: str) -> int:
        """Return an operand that must be one constant whole number."""
        return int(self.array(value, what).reshape(-1)[0])

    def setting(
        self, name: str, values: tuple[Value, ...], index: int, default: object = None
    ) -> list[int] | Any:
        """Return a setting: an attribute in older versions, an operand in newer ones."""
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
        if isinstance(value, Sums):
            return value.values
        if value is None:
            raise self.refuse(f"its {what} is missing")
        tensor = value.tensor
        if tensor is None and value.array.dtype == object:
            tensor = torch.tensor(value.array.tolist())
        elif tensor is None:
            tensor = torch.from_numpy(np.array(value.array)).to(torch.get_default_device())
        return tensor if value.levels is None else value.levels.rounded(tensor)


Function = Callable[..., Any]


def with_tensors(function: Function) -> Function:
    """Give a function tensors for the operands that it annotates as such.

    Args:
        function: of a node and its operands; those annotated as `Value` come as they are.
    """
    kinds = [
        (item.name, str(item.annotation), item.kind is item.VAR_POSITIONAL)
        for item in list(signature(function).parameters.values())[1:]
    ]

    def compute(node: NodeCall, *values: Value) -> Any:
        rest = kinds[-1:] * (len(values) - len(kinds)) if kinds and kinds[-1][2] else []
        operands = list(values)
        for place, (name, kind, _) in enumerate([*kinds, *rest][: len(values)]):
            if kind == "Tensor" or (kind == "Tensor | None" and values[place] is not None):
                what = "operand" if len(name) == 1 else name
                operands[place] = node.tensor(values[place], what)
        return function(node, *operands)

    return compute


def of_sizes(function: Function, sizes: Callable[..., Any]) -> Function:
    """Let a function of tensors compute sizes too: operands that are all constants.

    Args:
        function: of a node and its operands.
        sizes: of their arrays, whose elements may be symbols of a dynamic batch.
    """

    def compute(node: NodeCall, *values: Value) -> Any:
        arrays = [value.array for value in values if isinstance(value, Constant)]
        if len(arrays) == len(values):
            return Constant(np.asarray(sizes(*arrays)))
        return function(node, *values)

    return compute


def sizes(array: np.ndarray[Any, Any]) -> list[Any]:
    """Return whole numbers, which symbols of a dynamic batch may be among."""
    return [item if not isinstance(item, np.generic) else int(item) for item in array.reshape(-1)]
