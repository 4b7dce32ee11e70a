"""Packing of beats into the words of Verilator's ports, and padding lanes."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mase_hw.emit.design import Stream
from mase_hw.formats.fixed import Fixed
from mase_hw.ops import TensorSpec
from mase_hw.sim.layout import FieldLayout, StreamLayout, storage_bytes


def stream(shape: tuple[int, ...], width: int, parallelism: tuple[int, int]) -> Stream:
    return Stream("s", "n", TensorSpec(shape, "float32", Fixed(width, 0), parallelism))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 32), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_beats_are_the_integers_they_stand_for(width, lanes, seed):
    generator = np.random.default_rng(seed)
    patterns = generator.integers(0, 1 << width, (5, lanes))
    field = FieldLayout("f", "", lanes, width, 0)
    packed = field.pack(patterns)
    for row, values in zip(packed, patterns, strict=True):
        whole = sum(int(value) << (width * lane) for lane, value in enumerate(values))
        assert int.from_bytes(row.tobytes(), "little") == whole
    assert np.array_equal(field.unpack(packed), patterns)


def test_storage_is_that_of_verilator():
    sizes = {1: 1, 8: 1, 9: 2, 16: 2, 17: 4, 32: 4, 33: 8, 64: 8, 65: 12, 96: 12, 512: 64}
    assert {width: storage_bytes(width) for width in sizes} == sizes


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 5), st.integers(1, 7)),
    st.integers(2, 13),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
)
def test_garbage_fills_padding_alone(shape, width, parallelism):
    layout = StreamLayout(stream(shape, width, parallelism))
    spec = layout.stream.spec
    codes = spec.quantized.random_codes((3, *shape), torch.Generator().manual_seed(1))
    clean = layout.pack(codes)
    dirty = layout.pack(codes, np.random.default_rng(2))
    mask = np.tile(layout.mask(), (3, 1))
    assert np.array_equal(clean & mask, dirty & mask)
    assert torch.equal(spec.from_beats(layout.unpack(dirty)), codes)
    assert ((layout.elements < 0).any()) == (spec.beats * spec.lanes > spec.elements)


def test_garbage_is_there():
    layout = StreamLayout(stream((1, 5), 8, (1, 4)))
    codes = torch.zeros(50, 1, 5, dtype=torch.int64)
    assert layout.pack(codes, np.random.default_rng(0)).any()
    assert not layout.pack(codes).any()
