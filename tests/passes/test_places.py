"""Where constants lie, and which parallelisms are tried, is what the metadata says."""

import pytest
import torch
from torch import nn

from mase_hw.emit.flow import quantize
from mase_hw.formats import make_format
from mase_hw.graph import metadata, trace
from mase_hw.passes.hardware.hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.hardware.parallelism import Group


@pytest.mark.parametrize(("memory", "place"), [("on-chip", "BRAM"), ("external", "AXI")])
def test_constants_lie_where_the_configuration_says(memory, place):
    mg = quantize(trace(nn.Linear(4, 3), torch.randn(8, 4)), None)
    mg, _ = add_hardware_metadata_analysis_pass(mg, {"memory": memory})
    (node,) = [node for node in mg.nodes if node.op == "call_function"]
    known = metadata(node).hardware
    assert known.interface["weight"] == place
    assert known.outside == (("weight",) if place == "AXI" else ())
    assert bool(known.memory) == (place == "AXI")


def group(size, *formats, fixed=None):
    return Group([("x", "data_in_0", 0)], size, list(formats), fixed)


def test_every_size_of_a_tile_is_tried():
    """The smallest one of each number of tiles."""
    assert group(1).candidates() == [1]
    assert group(6).candidates() == [1, 2, 3, 6]
    assert group(10).candidates() == [1, 2, 3, 4, 5, 10]
    assert group(10, fixed=7).candidates() == [7]


def test_a_format_of_blocks_is_tried_at_all_sizes_that_fit():
    """A beat lies in one block."""
    twelve = make_format({"name": "mxint", "block_size": 12})
    assert group(24, twelve).candidates() == [1, 2, 3, 4, 6, 12]
    assert group(24, twelve).at_most(11) == 6
    eight = make_format({"name": "mxint", "block_size": 8})
    assert group(24, twelve, eight).candidates() == [1, 2, 4]
