"""Files of memories: one word a line, whatever its width."""

import random

import pytest
import torch

from mase_hw.cells.rom_source import pack_words
from mase_hw.emit.design import Memory
from mase_hw.formats.fixed import Fixed


@pytest.mark.parametrize("width", [1, 4, 5, 32, 60, 63, 64, 65, 200])
def test_every_word_is_a_line_of_digits(width):
    rng = random.Random(width)
    words = (0, (1 << width) - 1, *(rng.getrandbits(width) for _ in range(20)))
    lines = Memory("name", "node", width, words).render().splitlines()
    assert [int(line, 16) for line in lines] == list(words)
    assert {len(line) for line in lines} == {-(-width // 4)}
    assert Memory("name", "node", width, ()).render() == ""


@pytest.mark.parametrize("lanes", [1, 8, 13])
@pytest.mark.parametrize("width", [7, 8, 9, 17])
def test_lanes_lie_side_by_side_in_a_word(width, lanes):
    number = Fixed(width, 2)
    codes = number.random_codes((5, lanes), torch.Generator().manual_seed(1))
    mask = (1 << width) - 1
    expected = [
        sum((code & mask) << (lane * width) for lane, code in enumerate(row))
        for row in codes.tolist()
    ]
    octets = pack_words(number, codes)
    assert octets.shape == (5, -(-width * lanes // 8))
    assert [int.from_bytes(row.tobytes(), "little") for row in octets] == expected
