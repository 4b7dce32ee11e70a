"""The search for the smallest interval against all there is."""

from itertools import pairwise, product

from hypothesis import given, settings
from hypothesis import strategies as st

from mase_hw.passes.hardware._balance import Balance, Join, Option, Unit, tile_sizes


def layer(inputs, outputs, elements, groups):
    """Return a product of `elements` x inputs x outputs that may be unrolled."""
    options = [
        Option((a, b), max(-(-elements // c) * -(-outputs // b), 1) * -(-inputs // a), a * b * c)
        for a, b, c in product(tile_sizes(inputs), tile_sizes(outputs), range(1, elements + 1))
    ]
    return Unit(groups, options)


def chain(sizes, tied):
    """Return layers in a row, and the lanes of the streams between them, tied or free."""
    units, candidates, joins = [], [], []
    for a, b in pairwise(sizes):
        first = len(candidates) - bool(tied and candidates)
        if candidates and not tied:
            joins.append(Join([(first - 1, first)], 5))
        candidates += [tile_sizes(size) for size in (a, b)][len(candidates) - first :]
        units.append(layer(a, b, 2, (first, first + 1)))
    return Balance(units, candidates, joins)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=2, max_size=4), st.integers(3, 60), st.booleans())
def test_the_interval_is_the_smallest_of_all_lanes_within_the_budget(sizes, budget, tied):
    balance = chain(sizes, tied)
    best = balance.best(budget)
    expected = None
    for lanes in product(*balance.candidates):
        at = [
            [item for item in unit.options if item.lanes == tuple(lanes[g] for g in unit.groups)]
            for unit in balance.units
        ]
        for chosen in product(*at) if tied or len(sizes) < 4 else ():
            if sum(item.multipliers for item in chosen) <= budget:
                interval = max(item.work_cycles for item in chosen)
                expected = interval if expected is None else min(expected, interval)
    if tied or len(sizes) < 4:
        assert (best is None) == (expected is None)
    if best is None:
        assert balance.least() > budget
        return
    lanes, chosen = best
    assert sum(item.multipliers for item in chosen) <= budget
    assert expected in (None, max(item.work_cycles for item in chosen))
    for unit, item in zip(balance.units, chosen, strict=True):
        assert item.lanes == tuple(lanes[group] for group in unit.groups)


def test_lanes_differ_where_that_is_cheaper_than_to_have_them_equal():
    wide = Unit((0,), [Option((value,), 8 // value, 0, 40 * value) for value in (1, 2, 4, 8)])
    fast = Unit((1,), [Option((8,), 1, 0, 8)])
    for price, lanes in ((50, [1, 8]), (500, [8, 8])):
        slow = Unit((2,), [Option((1,), 8, 0)])
        joins = [Join([(0, 1)], price)]
        best = Balance([wide, fast, slow], [[1, 2, 4, 8], [8], [1]], joins).best(1)
        assert best is not None
        assert best[0][:2] == lanes


def test_a_budget_that_is_too_small_says_what_is_needed():
    balance = chain([4, 4, 2], tied=False)
    assert balance.best(1) is None
    assert balance.least() == 2


def test_sizes_of_tiles_are_the_smallest_for_their_number():
    assert tile_sizes(10) == [1, 2, 3, 4, 5, 10]
    assert tile_sizes(1) == [1]
    many = tile_sizes(4096)
    assert many[0] == 1
    assert many[-1] == 4096
    assert len(many) < 90
