"""The contract of a data set for supervised learning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.errors import DataError

VALIDATION_SHARE = 0.2


@dataclass(frozen=True)
class Split:
    """Samples and labels.

    Attributes:
        train_inputs: float32 `[samples, *shape]`.
        train_labels: int64 `[samples]`.
        test_inputs: float32, for the final report alone: nothing is trained or chosen on them.
        test_labels: int64.
        validation_inputs: float32, never trained on: whatever chooses among models scores on
            these. Empty until `hold_out`.
        validation_labels: int64.
    """

    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    validation_inputs: Tensor = field(default_factory=lambda: torch.empty(0))
    validation_labels: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))

    def hold_out(self, share: float = VALIDATION_SHARE, seed: int = 0) -> Split:
        """Return the split with a share of every class's training samples held out to validate.

        Raises:
            DataError: when the share leaves nothing to train on, or nothing to validate on.
        """
        if not 0.0 < share < 1.0:
            raise DataError(f"the share to validate on is {share!r}; allowed: between 0 and 1")
        generator = torch.Generator().manual_seed(seed)
        held = torch.zeros(len(self.train_labels), dtype=torch.bool)
        for label in torch.unique(self.train_labels):
            (members,) = torch.nonzero(self.train_labels == label, as_tuple=True)
            order = torch.randperm(len(members), generator=generator)
            held[members[order[: round(share * len(members))]]] = True
        if not held.any() or held.all():
            raise DataError(
                f"{len(held)} training samples cannot give a share of {share} to validate on"
            )
        return replace(
            self,
            train_inputs=self.train_inputs[~held],
            train_labels=self.train_labels[~held],
            validation_inputs=self.train_inputs[held],
            validation_labels=self.train_labels[held],
        )


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
