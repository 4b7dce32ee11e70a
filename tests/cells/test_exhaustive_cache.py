"""A small cache sends and keeps what a list of entries does, from every content on."""

import itertools
import random
from collections.abc import Callable

import pytest

from mase_hw.cells import Port
from mase_hw.cells.cache import Cache
from mase_hw.formats import StreamField
from tests.cells.rational import Claim, check

STEPS = 150
# For entries of one bit, with which every content, place and entry is met.
LONG_STEPS = 700


def walk(block: int, places: int, groups: int, layers: int, first: tuple[int, ...]) -> Claim:
    """Write the places of `first`, then any, in layers in turn: entries of one bit a beat.

    Every entry is written at every place, over every content, once all places are written.
    """
    position_bits = max(1, (places - 1).bit_length())
    beats = groups * places * block
    port = Port((StreamField("", 1, 1),), beats, packed=True)
    cell = Cache(port, block, places, groups, position_bits, layers)
    size = groups * block
    contents: list[list[tuple[int, ...]]] = [[(0,) * size] * places for _ in range(layers)]
    written: list[set[int]] = [set() for _ in range(layers)]
    chance = random.Random(str((block, places, groups, layers, first)))
    inputs: dict[str, list[int]] = {"data_in": [], "position": []}
    wanted: list[int] = []
    seen = set()
    steps = LONG_STEPS if size == 1 else STEPS
    for step in range(steps * layers):
        content, there = contents[step % layers], written[step % layers]
        asked = first[step] if step < len(first) else chance.randrange(1 << position_bits)
        entry = tuple(chance.randrange(2) for _ in range(size))
        if len(there) == places:
            seen.add((tuple(content), asked, entry))
        place = min(asked, places - 1)
        there.add(place)
        content[place] = entry
        for group, where, beat in itertools.product(range(groups), range(places), range(block)):
            inputs["data_in"].append(entry[group * block + beat])
            inputs["position"].append(asked)
            wanted.append(content[where][group * block + beat])
    if size == 1:
        assert len(seen) == 2**places * (1 << position_bits) * 2
    return Claim(cell, inputs, wanted)


def claims() -> dict[str, Callable[[], Claim]]:
    """Return walks from every order in which the first entries come."""
    sizes = [(1, 2, 1, 1), (1, 3, 1, 1), (2, 2, 1, 1), (1, 2, 2, 1), (2, 2, 2, 1)]
    sizes += [(1, 2, 1, 2), (1, 3, 1, 3), (2, 2, 2, 2)]
    found: dict[str, Callable[[], Claim]] = {}
    for size in sizes:
        for first in itertools.product(range(size[1]), repeat=2):
            found[f"{size} from {first}"] = lambda size=size, first=first: walk(*size, first)
    return found


CLAIMS = claims()


@pytest.mark.full
@pytest.mark.parametrize("name", CLAIMS)
def test_exhaustive_cache(name, found):
    check(*found[name])
