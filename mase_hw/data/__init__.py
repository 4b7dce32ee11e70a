"""Data sets, found by walking this folder and the entry points `mase_hw.data`."""

from __future__ import annotations

from functools import cache

from mase_hw.data._base import Dataset, Split
from mase_hw.data._split import unlabelled
from mase_hw.errors import DataError
from mase_hw.registry import discover, nearest

__all__ = ["Dataset", "Split", "dataset", "datasets", "unlabelled"]


@cache
def datasets() -> dict[str, Dataset]:
    """Return one instance of every data set by name."""
    return {cls.name: cls() for cls in discover(__name__, Dataset, "mase_hw.data")}  # type: ignore[type-abstract]


def dataset(name: str) -> Dataset:
    """Return the data set called `name`.

    Raises:
        DataError: when there is none; the message offers the nearest names.
    """
    if name not in datasets():
        raise DataError(f"no data set is called {name!r}; {nearest(name, datasets())}")
    return datasets()[name]
