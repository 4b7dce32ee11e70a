"""The contract of a data set for supervised learning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from mase_hw.data._split import Split

__all__ = ["Dataset", "Split"]


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
