"""Batches of any origin, in one form: inputs of the model, and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw._kinds import Table
from mase_hw.errors import DataError

LABELS = ("labels", "label")


@dataclass(frozen=True)
class Batch:
    """One batch.

    Attributes:
        args: inputs of the model by position.
        kwargs: inputs by name.
        labels: targets; None where the model's own loss needs none.
    """

    args: tuple[Any, ...] = ()
    kwargs: Table = field(default_factory=dict)
    labels: Tensor | None = None

    @classmethod
    def of(cls, inputs: Inputs, labels: Tensor | None = None) -> Batch:
        """Return the batch of inputs in any of their forms."""
        if isinstance(inputs, Mapping):
            return cls((), inputs, labels)
        return cls(tensors(inputs), {}, labels)

    @property
    def inputs(self) -> Inputs:
        """Inputs of the model, in the form that `of` takes."""
        if self.kwargs:
            return self.kwargs
        return self.args[0] if len(self.args) == 1 else self.args

    def __len__(self) -> int:
        """Return the number of samples."""
        values = [*self.args, *self.kwargs.values(), self.labels]
        return next((len(value) for value in values if isinstance(value, Tensor)), 0)

    def run(self, module: Any) -> Any:
        """Return a model's outputs, on the device where it is."""
        device = device_of(module)
        args = [_moved(value, device) for value in self.args]
        kwargs = {name: _moved(value, device) for name, value in self.kwargs.items()}
        return module(*args, **kwargs)


def read_batch(item: object) -> Batch:
    """Return one item of an iterable of batches.

    A pair is inputs and labels, a mapping (a dictionary, `BatchEncoding`) is the model's inputs by
    name, with `labels` among them or `label`. Arrays and lists of numbers become tensors.

    Raises:
        DataError: for anything else.
    """
    if isinstance(item, Batch):
        return item
    if isinstance(item, Mapping):
        values = {
            str(name): read_tensor(value) for name, value in item.items() if value is not None
        }
        labels = next((values.pop(name) for name in LABELS if name in values), None)
        return Batch((), values, labels)
    if isinstance(item, tuple | list) and len(item) == 2:
        inputs, labels = item
        if isinstance(inputs, Mapping):
            return Batch(
                (), {str(k): read_tensor(v) for k, v in inputs.items()}, read_tensor(labels)
            )
        args = inputs if isinstance(inputs, tuple | list) else (inputs,)
        return Batch(tuple(read_tensor(value) for value in args), {}, read_tensor(labels))
    if isinstance(item, Tensor):
        return Batch((item,))
    raise DataError(
        f"a batch is a {type(item).__name__}; allowed: (inputs, labels), or a dictionary of "
        "tensors by the names of the model's inputs, with labels"
    )


class Samples:
    """Tensors `[samples, ...]` of inputs and labels, drawn in batches in a random order."""

    def __init__(self, inputs: Inputs, labels: Tensor, batch_size: int) -> None:
        self._inputs, self._labels, self._size = inputs, labels, batch_size

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self._parts(torch.arange(len(self._labels))))

    def shuffled(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield all samples once, in a random order."""
        for index in self._parts(torch.randperm(len(self._labels), generator=generator)):
            yield Batch.of(take(self._inputs, index), self._labels[index])

    def _parts(self, order: Tensor) -> list[Tensor]:
        """Return the indices of batches; a last sample alone joins the batch before it.

        Statistics of one sample are none.
        """
        parts = list(torch.split(order, self._size))
        if len(parts) > 1 and len(parts[-1]) == 1 < self._size:
            parts[-2:] = [torch.cat(parts[-2:])]
        return parts


def in_order(data: Any, labels: Tensor | None, batch_size: int) -> Iterator[Batch]:
    """Yield the batches of tensors with labels, or of an iterable."""
    if labels is not None:
        for start in range(0, len(labels), batch_size):
            part = slice(start, start + batch_size)
            yield Batch.of(take(data, part), labels[part])
        return
    if not isinstance(data, Iterable):
        raise DataError(
            f"data is a {type(data).__name__}; allowed: tensors, an iterable of batches"
        )
    yield from map(read_batch, data)


def device_of(module: object) -> torch.device | None:
    """Device of a module's state; None for one without any."""
    if not isinstance(module, nn.Module):
        return None
    state = (*module.parameters(), *module.buffers())
    return state[0].device if state else None


def _moved(value: object, device: torch.device | None) -> object:
    return value.to(device) if isinstance(value, Tensor) and device is not None else value


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
