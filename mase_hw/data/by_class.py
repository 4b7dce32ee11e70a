"""Places of samples, of which a share of every class is held out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from mase_hw.errors import DataError

VALIDATION_SHARE = 0.2


@dataclass(frozen=True)
class Split:
    """Places of samples, and the class of each.

    Attributes:
        train_inputs: int64 `[samples]`.
        train_labels: int64 `[samples]`.
        validation_inputs: those that are held out.
        validation_labels: their classes.
    """

    train_inputs: Tensor
    train_labels: Tensor
    validation_inputs: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
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
