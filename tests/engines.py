"""Which tests run in both engines."""

import pytest

from mase_hw.sim.simulate import ENGINES

FIRST = "native"
# Both by default: what the engines themselves do, in `tests/sim` and on a perceptron.
both = pytest.mark.parametrize("engine", list(ENGINES))
# Of cells and operators the engines see the same ports: the second one is full.
each = pytest.mark.parametrize(
    "engine",
    [pytest.param(name, marks=[] if name == FIRST else pytest.mark.full) for name in ENGINES],
)
