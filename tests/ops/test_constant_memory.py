"""The shortest memory of a constant that repeats."""

import pytest
import torch

from mase_hw.ops._one_cell import shortest_beats


@pytest.mark.parametrize(("words", "hold", "times"), [(3, 1, 1), (3, 4, 1), (1, 5, 2), (2, 3, 4)])
def test_period_and_hold(words: int, hold: int, times: int) -> None:
    own = torch.arange(2 * words).reshape(words, 2)
    beats, stays = shortest_beats(own.repeat_interleave(hold, 0).repeat(times, 1))
    assert torch.equal(beats, own)
    assert stays == (hold if words > 1 else 1)


def test_many_beats_are_quick() -> None:
    """A scale of each channel of a large image; all divisors of its beats would take minutes."""
    own = torch.arange(64)[:, None]
    beats, stays = shortest_beats(own.repeat(112 * 112, 1))
    assert torch.equal(beats, own)
    assert stays == 1
