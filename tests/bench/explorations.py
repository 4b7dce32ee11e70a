"""Small designs whose parallelisms are enumerated, to compare the solver with the optimum."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from mase_hw.hardware.explore import Explorer

CHAINS = ((12, 10, 9, 6), (16, 8, 10), (8, 12, 6, 5))
SHARES = (0.02, 0.05, 0.1, 0.3, 0.7)


def largest_gap() -> tuple[float, int, int]:
    """Return the largest gap of a cost to the least one, the questions, and the designs."""
    from mase_hw.emit.flow import quantize
    from mase_hw.graph import trace
    from mase_hw.hardware.explore import Explorer, Targets
    from mase_hw.models import perceptron

    gap, questions, total = 0.0, 0, 0
    for sizes in CHAINS:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module, inputs = perceptron(*sizes).eval(), torch.randn(16, sizes[0])
        explorer = Explorer.of(quantize(trace(module, inputs, name="small")))
        designs = list(_designs(explorer))
        total += len(designs)
        slowest = max(cycles for cycles, _ in designs)
        fastest = min(cycles for cycles, _ in designs)
        for share in SHARES:
            interval = max(fastest, int(share * slowest))
            least = min(cost for cycles, cost in designs if cycles <= interval)
            found = explorer.best(Targets(target_interval=interval)).cost.weighed - len(
                explorer.candidates
            )
            gap = max(gap, found / least - 1)
            questions += 1
    return gap, questions, total


def _designs(explorer: Explorer) -> Iterator[tuple[int, float]]:
    """Yield interval and cost of every design."""
    space = explorer.space
    for values in itertools.product(*space.candidates):
        options = [
            [item for item in items if item.lanes == tuple(values[g] for g in choice.groups)]
            for choice, items in zip(space.choices, explorer.candidates, strict=True)
        ]
        for chosen in itertools.product(*options):
            yield max(c.cycles for c in chosen), sum(c.cost.weighed for c in chosen)
