"""Samples to train on, to choose by, and to report on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mase_hw.data.by_class import VALIDATION_SHARE
from mase_hw.data.by_class import Split as Places
from mase_hw.errors import DataError
from mase_hw.training.batches import (
    LABELS,
    Inputs,
    each,
    is_array,
    join,
    read_batch,
    read_inputs,
    read_tensor,
    size,
    take,
    tensors,
)

# Samples that are read of a data set at a time.
READ_AT_ONCE = 256
PARTS = ("train_inputs", "train_labels", "test_inputs", "test_labels")
HALVES = ("train", "test", "validation")
FORMS = (
    "a Split; (inputs, labels), of which a part is held out to test on; (train, test), each "
    "(inputs, labels), a data set or a loader of batches; or a dictionary by the names inputs and "
    f"labels, {', '.join(PARTS)}, or {', '.join(HALVES)}"
)


@dataclass(frozen=True)
class Split:
    """Samples and what is wanted of each.

    Inputs are one tensor `[samples, ...]`, or several: a tuple in the order of the model's inputs,
    or a dictionary by their names.

    Attributes:
        train_inputs: to train on.
        train_labels: int64 `[samples]` for classes, `[samples, positions]` for tokens; float32 for
            regression.
        test_inputs: for the final report alone: nothing is trained or chosen on them.
        test_labels: likewise.
        validation_inputs: never trained on: whatever chooses among models scores on these. Empty
            until `hold_out`.
        validation_labels: likewise.
    """

    train_inputs: Any
    train_labels: Tensor
    test_inputs: Any
    test_labels: Tensor
    validation_inputs: Any = field(default_factory=lambda: torch.empty(0))
    validation_labels: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))

    @classmethod
    def read(cls, given: object, where: str = "data") -> Split:
        """Return the split, validation samples included, that arrays, data sets or loaders mean.

        A loader is read once, from beginning to end; its batches must be of one shape.

        Args:
            given: see the message of the error.
            where: what a message calls it.

        Raises:
            DataError: when it is none of these, or inputs and labels do not go together.
        """
        split = given if isinstance(given, cls) else _read(given, where)
        return split if len(split.validation_labels) else split.hold_out()

    def hold_out(self, share: float = VALIDATION_SHARE, seed: int = 0) -> Split:
        """Return the split with a share of the training samples held out to validate.

        Of classes, the share of each.

        Raises:
            DataError: when the share leaves nothing to train on, or nothing to validate on.
        """
        labels = self.train_labels
        classes = labels.dim() == 1 and not labels.is_floating_point()
        kinds = labels if classes else torch.zeros(len(labels), dtype=torch.int64)
        places = Places(torch.arange(len(labels)), kinds).hold_out(share, seed)
        return Split(
            take(self.train_inputs, places.train_inputs),
            labels[places.train_inputs],
            self.test_inputs,
            self.test_labels,
            take(self.train_inputs, places.validation_inputs),
            labels[places.validation_inputs],
        )

    def tensors(self) -> Iterator[Tensor]:
        """Yield all tensors in order."""
        for value in vars(self).values():
            yield from tensors(value)


def _read(given: object, where: str) -> Split:
    if isinstance(given, Mapping) and any(name in given for name in HALVES):
        missing = [name for name in HALVES[:2] if name not in given]
        if missing:
            raise DataError(f"{where} has no {missing[0]!r}; allowed: {FORMS}")
        return _joined([given[name] for name in HALVES if name in given], where)
    if isinstance(given, Mapping) and any(name in given for name in PARTS):
        missing = [name for name in PARTS if name not in given]
        if missing:
            raise DataError(f"{where} has no {missing[0]!r}; allowed: {FORMS}")
        given = tuple(given[name] for name in PARTS)
    if (
        isinstance(given, tuple | list)
        and len(given) == len(PARTS)
        and all(map(_labels, given[1::2]))
    ):
        return _joined([given[:2], given[2:]], where)
    if isinstance(given, tuple) and len(given) != 2:
        raise DataError(f"{where} gives a tuple of {len(given)}; allowed: {FORMS}")
    if isinstance(given, tuple | list) and len(given) == 2 and not _labels(given[1]):
        return _joined(given, where)
    # What is held out here is tested on; validation samples are held out of the rest.
    inputs, labels = _samples(given, where)
    halves = Split(inputs, labels, inputs, labels).hold_out(seed=1)
    return Split(
        halves.train_inputs,
        halves.train_labels,
        halves.validation_inputs,
        halves.validation_labels,
    )


def unlabelled(given: object) -> Inputs | None:
    """Return inputs that come without labels: an array, or several by name; None for others."""
    if is_array(given):
        return read_inputs(given)
    if not isinstance(given, Mapping) or {*HALVES, *PARTS, *LABELS} & {*given}:
        return None
    return read_inputs(given["inputs"] if [*given] == ["inputs"] else given)


def _joined(halves: Sequence[object], where: str) -> Split:
    parts: list[Any] = [part for half in halves for part in _samples(half, where)]
    return Split(*parts)


def _labels(value: object) -> bool:
    """True if a value is an array, or a list of numbers."""
    return is_array(value) or (isinstance(value, list) and bool(value) and _number(value[0]))


def _number(value: object) -> bool:
    return isinstance(value, int | float) or (isinstance(value, list) and _number(value[0]))


def _samples(given: object, where: str) -> tuple[Inputs, Tensor]:
    """Return all inputs and labels of a pair, a dictionary, a data set, or a loader of batches."""
    try:
        if isinstance(given, tuple | list) and len(given) == 2 and _labels(given[1]):
            inputs, labels = read_inputs(given[0]), read_tensor(given[1])
        elif isinstance(given, Mapping):
            named = {str(name): value for name, value in given.items()}
            found = next((named.pop(name) for name in LABELS if name in named), None)
            if found is None or not named:
                raise DataError(f"it has no {'inputs' if found is not None else 'labels'!r}")
            one = list(named) == ["inputs"]
            inputs = read_inputs(named["inputs"] if one else named)
            labels = read_tensor(found)
        else:
            inputs, labels = _gathered(given)
    except DataError as error:
        raise DataError(f"{where}: {error}; allowed: {FORMS}") from error
    if size(inputs) != len(labels):
        raise DataError(f"{where} gives {size(inputs)} samples and {len(labels)} labels")
    return inputs, labels


def _gathered(given: Any) -> tuple[Inputs, Tensor]:
    """Return the samples of a data set or of a loader."""
    if isinstance(given, torch.utils.data.Dataset) or hasattr(given, "column_names"):
        given = torch.utils.data.DataLoader(given, READ_AT_ONCE)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DataError(f"it is a {type(given).__name__}")
    batches = [read_batch(item) for item in given]
    if not batches or any(batch.labels is None for batch in batches):
        raise DataError("it holds no batch" if not batches else "a batch has no labels")
    inputs = join([batch.inputs for batch in batches])
    labels = join([batch.labels for batch in batches if batch.labels is not None])
    assert isinstance(labels, Tensor)
    return each(inputs, _narrow), _narrow(labels)


def _narrow(values: Tensor) -> Tensor:
    return values.float() if values.dtype == torch.float64 else values
