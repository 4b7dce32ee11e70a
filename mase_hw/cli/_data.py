"""What a command's --data means: a registered data set, an .npz file, or `file.py:factory`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mase_hw.errors import DataError

if TYPE_CHECKING:
    from mase_hw.cli._model import Subject
    from mase_hw.data import Split

PARTS = ("train_inputs", "train_labels", "test_inputs", "test_labels")
FORMS = (
    "a Split, four arrays (train_inputs, train_labels, test_inputs, test_labels), two (inputs, "
    "labels), of which a part is held out to test on, or a dictionary of arrays by those names"
)


def load_data(subject: Subject, data: str | None) -> Split:
    """Return the samples for a model: those of --data, else its own.

    Raises:
        DataError: when there are none, or they cannot be read.
    """
    if data is not None:
        return load_split(data)
    if subject.split is None:
        raise DataError(
            f"{subject.mg.name} comes with no data; name a data set, an .npz file or "
            "file.py:factory with --data"
        )
    return subject.split


def load_split(argument: str) -> Split:
    """Return the samples that --data names, with validation samples held out.

    Raises:
        DataError: when they cannot be read.
    """
    from mase_hw.data import dataset

    if argument.endswith(".npz"):
        split = _split(_npz(Path(argument)), argument)
    elif ":" in argument:
        split = _split(_made(argument), argument)
    else:
        split = dataset(argument).load()
    return split if len(split.validation_labels) else split.hold_out()


def _npz(path: Path) -> dict[str, Any]:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as an .npz file: {error}") from error


def _made(argument: str) -> Any:
    from mase_hw.models.builder import load_factory, reason

    factory = load_factory(argument)
    try:
        return factory()
    except (Exception, SystemExit) as error:
        raise DataError(f"{argument} failed: {reason(error)}") from error


def _split(given: Any, where: str) -> Split:
    """Return the split that arrays mean."""
    from mase_hw.data import Split

    if isinstance(given, Split):
        return given
    if isinstance(given, dict):
        names = PARTS if set(PARTS) <= set(given) else ("inputs", "labels")
        missing = [name for name in names if name not in given]
        if missing:
            raise DataError(f"{where} has no {missing[0]!r}; allowed: {FORMS}")
        given = tuple(given[name] for name in names)
    if not isinstance(given, tuple | list) or len(given) not in (2, len(PARTS)):
        kind = type(given).__name__
        many = f" of {len(given)}" if isinstance(given, tuple | list) else ""
        raise DataError(f"{where} gives a {kind}{many}; allowed: {FORMS}")
    tensors = [_tensor(value, where) for value in given]
    for inputs, labels in zip(tensors[::2], tensors[1::2], strict=True):
        if len(inputs) != len(labels):
            raise DataError(f"{where} gives {len(inputs)} samples and {len(labels)} labels")
    if len(tensors) == len(PARTS):
        return Split(*tensors)
    # What is held out here is tested on; validation samples are held out of the rest.
    halves = Split(*tensors, *tensors).hold_out(seed=1)
    return Split(
        halves.train_inputs,
        halves.train_labels,
        halves.validation_inputs,
        halves.validation_labels,
    )


def _tensor(value: Any, where: str) -> Any:
    import torch

    try:
        found = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{where} gives a {type(value).__name__}, no array: {error}") from error
    return found.float() if found.dtype == torch.float64 else found
