"""95 % intervals of confidence of figures that are measured on samples.

Shares have Wilson's (1927), losses of paired shares the square-and-add combination of two of them
(Newcombe, 1998, method 10).
"""

from __future__ import annotations

import math

# Quantile of the normal distribution for 95 %, both sides.
Z = 1.959964
Interval = tuple[float, float]


def of_share(count: float, samples: int) -> Interval:
    """Return the interval of a share, `count` of independent samples."""
    share, z2 = count / samples, Z * Z / samples
    middle = (share + z2 / 2) / (1 + z2)
    half = Z / (1 + z2) * math.sqrt(share * (1 - share) / samples + z2 / (4 * samples))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def of_loss(lost: int, won: int, samples: int) -> Interval:
    """Return the interval of the difference of two shares of the same samples.

    Args:
        lost: samples that count for the first share alone.
        won: for the second alone.
        samples: in all.
    """
    (low, high), (least, most) = of_share(lost, samples), of_share(won, samples)
    first, second = lost / samples, won / samples
    odds = [share / (1.0 - share) if share < 1.0 else 0.0 for share in (first, second)]
    # A sample counts for one of them at most.
    together = 2.0 * math.sqrt(odds[0] * odds[1])
    ends = (first - low, most - second), (high - first, second - least)
    below, above = (math.sqrt(a * a + b * b + together * a * b) for a, b in ends)
    return first - second - below, first - second + above


def resolved_share(samples: int) -> float:
    """Return the least share that samples tell from zero: where none of them shows it."""
    return of_share(0, samples)[1]


def samples_for(share: float) -> int:
    """Return how many samples tell a share from zero."""
    return math.ceil(Z * Z * (1 / share - 1))
