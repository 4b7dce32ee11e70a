"""Which elements stream where: shapes that change, rows that end at the diagonal."""

from itertools import pairwise
from math import prod

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import mase_hw
from mase_hw.cells.reorder import Reorder
from mase_hw.emit.flow import to_hardware
from mase_hw.geometry.growth import Growth
from mase_hw.geometry.reorder import LEAST_BEATS, Reordering
from mase_hw.geometry.runs import reshaped_axes
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops import Apply
from tests.engines import exact

FEW = st.integers(1, 5)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), FEW, FEW)
def test_a_tensor_is_cut_anew_in_parts_that_are_alike(rows, size, one, other):
    data = TensorSpec((rows, size), torch.float32, parallelism=(1, min(one, size)))
    result = data.with_parallelism(1, min(other, size))
    whole = Reordering.of(data, result, tuple(range(rows * size)))
    part, count = whole.parts
    for name in ("beats_in", "beats_out"):
        order, elements = getattr(part, name), rows * size // count
        numbers = [torch.where(order < 0, -1, order + n * elements) for n in range(count)]
        assert torch.equal(torch.cat(numbers), getattr(whole, name))
    least = max(data.tiles[1], result.tiles[1])
    assert count == 1 or rows * least // count >= LEAST_BEATS
    fewest_rows = -(-LEAST_BEATS // least)
    assert rows % fewest_rows or rows // count <= fewest_rows


@given(FEW, FEW, st.integers(1, 13))
def test_turns_grow_and_begin_anew(unit, every, runs):
    growth = Growth(unit, every, runs)
    lengths = np.array([unit * (1 + run // every) for run in range(runs)] * 2)
    starts, numbers = np.concatenate([[0], np.cumsum(lengths)]), np.arange(2 * runs)
    assert growth.beats == growth.start(np.array(runs)) == lengths.sum() // 2
    assert growth.longest == lengths.max()
    assert growth.count(3 * growth.beats) == 3 * runs
    assert growth.length(numbers).tolist() == lengths.tolist()
    assert growth.start(np.arange(2 * runs + 1)).tolist() == starts.tolist()
    assert growth.end(np.arange(-1, 2 * runs)).tolist() == (starts - 1).tolist()
    beats = np.arange(2 * growth.beats)
    assert growth.run(beats).tolist() == np.repeat(numbers, lengths).tolist()
    more = growth.times(2, 3)
    assert more.beats == 6 * growth.beats
    assert more.length(np.arange(3 * runs)).tolist() == np.repeat(2 * lengths[:runs], 3).tolist()


@given(st.integers(1, 3), st.integers(2, 6), st.integers(1, 4), st.booleans())
def test_rows_that_grow_come_back_up_to_the_diagonal(heads, tokens, lanes, inside):
    shape = (1, heads, tokens, tokens)
    order = Order.permuted(shape, (0, 2, 1, 3)) if inside else None
    spec = TensorSpec(shape, parallelism=(1, lanes), order=order, grows=True)
    codes = torch.arange(1, 2 * prod(shape) + 1).reshape(2, *shape[1:])
    beats = spec.to_beats(codes)
    assert beats.shape == (2 * spec.beats, lanes)
    streams = torch.arange(tokens) // lanes <= torch.arange(tokens)[:, None] // lanes
    found = spec.from_beats(beats).reshape(codes.shape)
    assert torch.equal(found, torch.where(streams, codes, 0))
    assert TensorSpec.from_dict(spec.to_dict()) == spec


@settings(max_examples=200)
@given(st.data())
def test_elements_stay_where_they_are_when_other_dimensions_are_split_or_joined(data):
    factors = data.draw(st.lists(st.sampled_from([1, 2, 2, 3]), min_size=1, max_size=5))
    shapes = []
    for _ in range(2):
        cuts = [0, *(i for i in range(1, len(factors)) if data.draw(st.booleans())), None]
        parts = [prod(factors[i:j]) for i, j in pairwise(cuts)]
        shapes.append((1, *parts))
    axes = (0, *data.draw(st.permutations(range(1, len(shapes[0])))))
    lanes = data.draw(st.integers(1, 2))
    spec = TensorSpec(shapes[0], parallelism=(1, lanes), order=Order.permuted(shapes[0], axes))
    found = reshaped_axes(spec, shapes[1])
    if found is None:
        return
    made = TensorSpec(shapes[1], parallelism=(1, lanes), order=Order.permuted(shapes[1], found))
    numbers = torch.arange(spec.elements)
    before, after = (item.to_beats(numbers.reshape(item.shape), -1) for item in (spec, made))
    assert torch.equal(before, after)


def test_heads_inside_of_tokens_stay_there():
    shape = (1, 2, 7, 3)
    spec = TensorSpec(shape, order=Order.permuted(shape, (0, 2, 1, 3)))
    assert reshaped_axes(spec, (1, 2, 1, 7, 3)) == (0, 3, 1, 2, 4)
    assert reshaped_axes(spec, (2, 7, 3)) == (1, 0, 2)
    # Tokens and heads do not stream one inside the other, and lanes would be others.
    assert reshaped_axes(spec, (1, 14, 3)) is None
    assert reshaped_axes(spec, (1, 2, 21)) is None
    assert reshaped_axes(spec, (1, 2, 7, 3, 1)) is None


def test_heads_that_are_sent_for_several_take_no_buffer_of_all_tokens():
    def copied(x):
        heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
        return heads.unsqueeze(2).expand(-1, -1, 3, -1, -1).reshape(x.shape[0], 6, -1, 4)

    model = Apply(lambda x, y: copied(x) @ copied(y).transpose(2, 3))
    inputs = torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    mg = to_hardware(mase_hw.quantize(mase_hw.trace(model, inputs)), parallelism=2)
    buffers = [
        node.name
        for node in mg.nodes
        if node.op == "call_function"
        for cell in mg.netlist(node).cells.values()
        if isinstance(cell, Reorder)
    ]
    # Of the columns, and of a result in torch's order.
    assert buffers
    assert all("matmul" in name for name in buffers)


class _Attention(torch.nn.Module):
    """Self-attention of one sequence, without a batch."""

    def __init__(self):
        super().__init__()
        self.query, self.key = torch.nn.Linear(6, 4), torch.nn.Linear(6, 4)

    def forward(self, x):
        return torch.softmax(self.query(x) @ self.key(x).T / 2, -1) @ x


@pytest.mark.full
def test_sequences_without_a_batch_meet_each_other(tmp_path):
    torch.manual_seed(0)
    model, tokens = _Attention(), torch.randn(5, 6)
    project = mase_hw.emit_verilog(
        mase_hw.quantize(mase_hw.trace(model, tokens)), output=tmp_path / "net"
    )
    report = exact(project, tokens, stall=0.2)
    assert torch.allclose(report.values["data_out_0"][0].float(), model(tokens), atol=0.1)
    several = exact(project, torch.stack([tokens, -tokens]))
    assert torch.equal(several.values["data_out_0"][0], report.values["data_out_0"][0])
