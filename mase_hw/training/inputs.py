"""Inputs of samples: one tensor, or several by position or by name, with the samples first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import DataError

Inputs = Tensor | tuple[Tensor, ...] | Mapping[str, Tensor]


def read_inputs(values: object) -> Inputs:
    """Return inputs out of tensors, arrays or lists of numbers, their number alike in all.

    A tensor or an array is one input, a tuple or a list of them several by position, a mapping
    several by name.

    Raises:
        DataError: for what holds no numbers, or inputs of different numbers of samples.
    """
    inputs: Inputs
    if isinstance(values, Mapping):
        inputs = {str(name): read_tensor(v) for name, v in values.items() if v is not None}
    elif isinstance(values, tuple | list) and values and all(map(is_array, values)):
        inputs = tuple(map(read_tensor, values))
    else:
        return read_tensor(values)
    counts = {len(item) if item.dim() else 1 for item in tensors(inputs)}
    if len(counts) > 1:
        raise DataError(f"the inputs hold {sorted(counts)} samples; give as many of each")
    return inputs


def is_array(value: object) -> bool:
    """True if a value is a tensor or an array."""
    return isinstance(value, Tensor) or hasattr(value, "__array__")


def read_tensor(value: object) -> Tensor:
    """Return a tensor; real numbers of 64 bits become 32.

    Raises:
        DataError: for what holds no numbers.
    """
    if isinstance(value, Tensor):
        return value
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"data holds a {type(value).__name__}, no array: {error}") from error
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def each(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """Return inputs with every tensor changed."""
    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, Mapping):
        return {name: change(item) for name, item in inputs.items()}
    return tuple(change(item) for item in inputs)


def tensors(inputs: Inputs) -> tuple[Tensor, ...]:
    """Return the tensors of inputs, in order."""
    if isinstance(inputs, Tensor):
        return (inputs,)
    return tuple(inputs.values() if isinstance(inputs, Mapping) else inputs)


def size(inputs: Inputs) -> int:
    """Return the number of samples."""
    return min((len(item) for item in tensors(inputs)), default=0)


def take(inputs: Inputs, index: Any) -> Inputs:
    """Return some samples: those of a slice, of places, or of a mask."""
    return each(inputs, lambda item: item[index])


def join(parts: Sequence[Inputs]) -> Inputs:
    """Return the samples of parts, one after the other.

    Raises:
        DataError: for parts of different shapes, such as sequences of different lengths.
    """
    first = parts[0]
    try:
        if isinstance(first, Tensor):
            return torch.cat([item for item in parts if isinstance(item, Tensor)])
        if isinstance(first, Mapping):
            return {name: torch.cat([_named(item, name) for item in parts]) for name in first}
        return tuple(torch.cat(items) for items in zip(*map(tensors, parts), strict=True))
    except (RuntimeError, ValueError) as error:
        raise DataError(
            f"batches of different shapes cannot be joined: {error}; pad every batch to one length"
        ) from error


def _named(inputs: Inputs, name: str) -> Tensor:
    if not isinstance(inputs, Mapping) or name not in inputs:
        raise DataError(f"a batch lacks the input {name!r} that the first one has")
    return inputs[name]
