"""Which queue follows which: what waits for several operands is stored once, and comes in time."""

import numpy as np

from mase_hw.timing.queue_tree import queues_behind

FIRST, SECOND, THIRD = (("node", name) for name in "abc")
STEADY = np.arange(40)


def waiting(gone, taken):
    come = np.searchsorted(gone, taken, side="right")
    return int((come - np.arange(taken.size)).max())


def queues(taken, left=STEADY, passing=1):
    return queues_behind(taken, left, waiting, passing)


def test_the_later_follows_the_queue_of_the_earlier():
    found = queues({FIRST: STEADY + 10, SECOND: STEADY + 14})
    assert found == [(FIRST, 0, 11), (SECOND, 1, 5)]


def test_what_is_taken_with_another_shares_its_queue():
    assert queues({FIRST: STEADY + 10, SECOND: STEADY + 10}) == [(FIRST, 0, 11), (SECOND, 1, 1)]


def test_what_is_taken_at_the_fork_needs_none():
    assert queues({FIRST: STEADY, SECOND: STEADY}) == []


def test_a_queue_that_would_come_late_follows_one_that_beats_leave_earlier():
    """The first operand takes a few beats at once, and then as late as the second."""
    first = np.maximum(STEADY, STEADY + 10 - 4 * (STEADY < 4))
    taken = {FIRST: first, SECOND: STEADY + 10}
    assert queues(taken) == [(None, 0, 10), (FIRST, 1, 2), (SECOND, 1, 4)]
    assert queues(taken, passing=0) == [(FIRST, 0, 11), (SECOND, 1, 4)]


def test_where_nothing_can_be_sent_earlier_each_has_its_own_queue():
    first = np.maximum(STEADY, STEADY + 1 - (STEADY < 4))
    second = STEADY + 1
    found = queues({FIRST: first, SECOND: second})
    assert found == [(FIRST, 0, 2), (SECOND, 0, 2)]
    assert queues({**dict.fromkeys((FIRST, SECOND), second), THIRD: second + 5})[2] == (THIRD, 1, 6)


def test_one_that_needs_no_queue_before_its_own_stays_at_the_fork():
    """Its beats are sparse; the queue of one that is late now and then is not for it."""
    left = 6 * STEADY
    other = np.where((STEADY > 1) & (STEADY < 5), STEADY + 28, left + 1)
    first = np.where(STEADY < 2, 3 * STEADY + 6, left + 3)
    second = np.where(STEADY < 2, STEADY + 9, left + 3)
    found = queues({FIRST: other, SECOND: first, THIRD: second}, left)
    assert found == [(FIRST, 0, 4), (SECOND, 0, 2), (THIRD, 0, 2)]
