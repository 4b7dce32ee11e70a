"""Batches of any origin, in one form: inputs of the model, and labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw._kinds import Table
from mase_hw.errors import DataError
from mase_hw.training.inputs import Inputs, read_tensor, take, tensors

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
