"""Letters: 16 features of 20,000 printed capital letters, 26 classes.

Source: D. J. Slate, "Letter Recognition", UCI Machine Learning Repository (1991), from KEEL.
"""

from __future__ import annotations

from mase_hw.data._keel import KeelTable


class Letter(KeelTable):
    """18,000 samples to train on and 2,000 to test on."""

    name = "letter"
    classes = 26
    file = "letter.npz"
