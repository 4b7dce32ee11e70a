"""Gamma rays or hadrons: 10 features of 19,020 simulated telescope images, 2 classes.

Source: R. K. Bock, "MAGIC Gamma Telescope", UCI Machine Learning Repository (2004), from KEEL,
where every feature is cut into ten intervals.
"""

from __future__ import annotations

from mase_hw.data._keel import KeelTable


class Magic(KeelTable):
    """17,118 samples to train on and 1,902 to test on."""

    name = "magic"
    classes = 2
    file = "magic.npz"
