"""What the page of the package says of its example."""

import numpy as np

from tests.timing.figure import FILE, curves, residual


def test_the_depth_is_the_largest_occupancy():
    mg = residual()
    found = curves(mg)
    come, departures = found["x_fifo"], found["add"]
    held = np.searchsorted(come, departures, side="right") - np.arange(departures.size)
    depth = mg.node("x_fifo").args[1]
    assert depth == held.max()
    page = FILE.parent.with_name("README.md").read_text()
    assert f"{depth} beats, in cycle {departures[held.argmax()]}." in page
    late = found["second"][0] - come[0], departures[0] - found["second"][0]
    assert "`second` {} cycles later, and `add` another {}:".format(*late) in page
    assert f"{depth} beats: the depth" in FILE.read_text()
