"""What a command's --data means: a registered data set, an .npz file, or `file.py:factory`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from mase_hw.data import Split
    from mase_hw.training.batches import Inputs


def load_split(argument: str) -> Split:
    """Return the samples that --data names, with validation samples held out.

    Raises:
        DataError: when they cannot be read.
    """
    from mase_hw.data import Split

    return Split.read(_samples(argument), argument)


def load_examples(argument: str) -> Split | Inputs:
    """Return the samples that --data names, as inputs alone where no labels come with them.

    Raises:
        DataError: when they cannot be read.
    """
    from mase_hw.data import Split, unlabelled

    samples = _samples(argument)
    inputs = unlabelled(samples)
    return Split.read(samples, argument) if inputs is None else inputs


def load_arrays(path: Path) -> dict[str, Tensor]:
    """Return the arrays of an .npz file by name; reals as float32.

    Raises:
        DataError: when it cannot be read.
    """
    import torch

    try:
        arrays = {name: torch.as_tensor(array) for name, array in _npz(path).items()}
    except TypeError as error:
        raise DataError(f"{path} holds what is no array of numbers: {error}") from error
    return {
        name: array.float() if array.dtype == torch.float64 else array
        for name, array in arrays.items()
    }


def _samples(argument: str) -> object:
    from mase_hw.data import dataset

    if argument.endswith(".npz"):
        return _npz(Path(argument))
    if ":" in argument:
        return _built(argument)
    if Path(argument).suffix:
        raise DataError(
            f"{argument} is no data: allowed are a data set's name, an .npz file with inputs and "
            "labels, and file.py:factory"
        )
    return dataset(argument).load()


def _npz(path: Path) -> dict[str, object]:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as an .npz file: {error}") from error


def _built(argument: str) -> object:
    from mase_hw.models.builder import load_factory, reason

    factory = load_factory(argument)
    try:
        return factory()
    except (Exception, SystemExit) as error:
        raise DataError(f"{argument} failed: {reason(error)}") from error
