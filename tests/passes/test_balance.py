"""The search for the smallest interval against all there is."""

from itertools import pairwise, product

from hypothesis import given, settings
from hypothesis import strategies as st

from mase_hw.passes.hardware._balance import Balance, Ladder, Option, Unit, tile_sizes


def layer(inputs, outputs, elements, groups):
    """Return a product of `elements` x inputs x outputs that may be unrolled."""

    def measure(lanes):
        tiles = -(-inputs // lanes[0])

        def build(place):
            beats = -(-elements // (place + 1)) * tiles * -(-outputs // lanes[1])
            return Option(max(beats, tiles), lanes[0] * lanes[1] * (place + 1))

        return Ladder(elements, build)

    return Unit(groups, measure)


SIZES = st.tuples(st.integers(1, 9), st.integers(1, 6), st.integers(1, 9))


@settings(max_examples=60, deadline=None)
@given(SIZES, st.integers(1, 60))
def test_one_layer_gets_the_smallest_interval(sizes, budget):
    inputs, elements, outputs = sizes
    unit = layer(inputs, outputs, elements, (0, 1))
    candidates = [tile_sizes(inputs), tile_sizes(outputs)]
    balance = Balance([unit], candidates)
    lanes = balance.best(budget)
    assert lanes is not None
    expected = min(
        option.work_cycles
        for tried in product(range(1, inputs + 1), range(1, outputs + 1))
        for option in unit.measure(tried)
        if option.multipliers <= budget
    )
    interval = balance.smallest_interval(lanes, budget)
    assert interval == expected
    assert unit.choose(lanes, interval).multipliers <= budget


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 8), min_size=3, max_size=5), st.integers(4, 80))
def test_a_chain_keeps_its_budget_and_uses_it(sizes, budget):
    units = [layer(a, b, 3, (number, number + 1)) for number, (a, b) in enumerate(pairwise(sizes))]
    balance = Balance(units, [tile_sizes(size) for size in sizes])
    lanes = balance.best(budget)
    assert lanes is not None
    interval = balance.smallest_interval(lanes, budget)
    chosen = [unit.choose(lanes, interval) for unit in units]
    assert sum(option.multipliers for option in chosen) <= budget
    assert max(option.work_cycles for option in chosen) == interval
    products = sum(3 * a * b for a, b in pairwise(sizes))
    assert interval * budget >= products
    # The search may miss the best; what it leaves is bounded by what it could do with half.
    half = balance.best(max(len(units), budget // 2))
    assert half is not None
    assert balance.smallest_interval(half, max(len(units), budget // 2)) >= interval


def test_a_budget_that_is_too_small_says_what_is_needed():
    balance = Balance([layer(4, 4, 1, (0, 1)), layer(4, 2, 1, (1, 2))], [[2], [1, 2, 4], [1, 2]])
    assert balance.best(2) is None
    assert balance.least() == 3


def test_sizes_of_tiles_are_the_smallest_for_their_number():
    assert tile_sizes(10) == [1, 2, 3, 4, 5, 10]
    assert tile_sizes(1) == [1]
    many = tile_sizes(4096)
    assert many[0] == 1
    assert many[-1] == 4096
    assert len(many) < 90


def test_equal_units_are_measured_once():
    measured = []

    def measure(lanes):
        measured.append(lanes)
        return Ladder(1, lambda _: Option(8 // lanes[0] * 4 // lanes[1], lanes[0] * lanes[1]))

    first = Unit((0, 1), measure)
    second = first.like((1, 2))
    # Lanes 0, 1, 2: the first unit sees 2, 4, the second 4, 2, then 2, 4.
    assert first.choose([2, 4, 2], 1).multipliers == 8
    assert second.choose([2, 4, 2], 1) == Option(4, 8)
    assert second.choose([1, 2, 4], 1) == first.choose([2, 4, 2], 1)
    assert measured == [(2, 4), (4, 2)]


def test_pairs_of_lanes_are_the_best_of_all_pairs():
    """What units cost apart and together adds up to what all of them cost."""
    units = [layer(6, 9, 3, (0, 1)), layer(9, 4, 2, (1, 2)), layer(6, 4, 1, (0, 2))]
    balance = Balance(units, [tile_sizes(6), tile_sizes(9), tile_sizes(4)])
    for interval in (3, 7, 20):
        lanes = [1, 3, 2]
        for groups in ((0,), (0, 1), (1, 2)):
            found = balance._best_values(groups, lanes, interval)
            costs = {}
            for values in product(*(balance.candidates[group] for group in groups)):
                tried = list(lanes)
                for group, value in zip(groups, values, strict=True):
                    tried[group] = value
                costs[values] = balance._total(units, tried, interval)
            assert costs[found] == min(costs.values())
            assert lanes == [1, 3, 2]
