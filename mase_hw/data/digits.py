"""Handwritten digits: 1,797 images of 8 x 8 pixels, 10 classes, inside scikit-learn.

Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository (1998), the test half, as `sklearn.datasets.load_digits` ships it.
"""

from __future__ import annotations

from importlib import metadata

import torch

from mase_hw._cache import cache_folder
from mase_hw._results import whole_file
from mase_hw.data._base import Dataset, Split
from mase_hw.data._split import PARTS

MAXIMUM_PIXEL = 16.0
TEST_FRACTION = 0.2


class Digits(Dataset):
    """Pixels scaled to [0, 1], flattened to 64; a fifth of every class is held out."""

    name = "digits"
    classes = 10

    def load(self) -> Split:
        """Return 1,437 samples to train on and 360 to test on.

        They are kept in the cache: scikit-learn takes a second to import.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file, save_file

        kept = cache_folder("data") / f"{self.name}-{metadata.version('scikit-learn')}.safetensors"
        try:
            return Split(**load_file(kept))
        except (OSError, SafetensorError, TypeError):
            split = _made()
        tensors = {name: getattr(split, name) for name in PARTS}
        with whole_file(kept) as whole:
            save_file(tensors, whole)
        return split


def _made() -> Split:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        pixels / MAXIMUM_PIXEL, labels, test_size=TEST_FRACTION, stratify=labels, random_state=0
    )
    return Split(
        torch.tensor(train_x, dtype=torch.float32),
        torch.tensor(train_y, dtype=torch.int64),
        torch.tensor(test_x, dtype=torch.float32),
        torch.tensor(test_y, dtype=torch.int64),
    )
