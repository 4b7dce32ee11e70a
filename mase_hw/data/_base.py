"""The contract of a data set for supervised learning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor


@dataclass(frozen=True)
class Split:
    """Samples and labels.

    Attributes:
        train_inputs: float32 `[samples, *shape]`.
        train_labels: int64 `[samples]`.
        test_inputs: float32, never trained on.
        test_labels: int64.
    """

    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor


class Dataset(ABC):
    """One data set, one file of this folder.

    Attributes:
        name: the word a command uses.
        classes: number of labels.
    """

    name: ClassVar[str]
    classes: ClassVar[int]

    @abstractmethod
    def load(self) -> Split:
        """Return the samples; the same at every call.

        Raises:
            DataError: when they cannot be had.
        """
