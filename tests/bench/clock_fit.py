"""The clock rates that predictions are fitted on: units, and chains of them."""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path

import numpy as np

from mase_hw.cells import Cell
from mase_hw.hardware import clock
from mase_hw.hardware.clock import Delays
from mase_hw.hardware.clock import Path as Route
from mase_hw.hardware.estimate import of_cell, placed_cells
from tests.bench.clock_units import CHAINS, DEVICE, SEEDS, SPEED, TARGET, UNITS, Unit, checked
from tests.bench.fit import key_of, source_of

DATA = Path(__file__).with_name("clock_fit.json")
# Where delays are looked for, ns.
LEVELS_NS = np.arange(0.1, 1.0, 0.025)
CARRY_NS = np.arange(0.02, 0.2, 0.005)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Rates:
    """What was measured of a design.

    Attributes:
        source: what `source_of_design` said of it then.
        mhz: its clock rates, one a seed.
    """

    source: str
    mhz: list[float]


@dataclass(frozen=True)
class Prediction:
    """A design, its clock rate in MHz, and what was predicted without having seen it."""

    name: str
    measured_mhz: float
    predicted_mhz: float

    @property
    def error(self) -> float:
        """The relative error."""
        return self.predicted_mhz / self.measured_mhz - 1


@dataclass(frozen=True)
class Observation:
    """A design that was placed and routed.

    Attributes:
        paths: through the components of its cells.
        size: look-up tables and flip-flops.
        cells: number of cells.
        mhz: highest clock.
    """

    paths: frozenset[Route]
    size: float
    cells: int
    mhz: float


def refit(progress: Progress | None = None) -> Delays:
    """Measure the designs that are new or changed, fit, and write both files."""
    say = progress or (lambda _: None)
    known, found = measured(), dict[str, Observation]()
    for name, unit in fit_units().items():
        cells = cells_of(unit)
        source = source_of_design(cells)
        if name not in known or known[name].source != source:
            say(f"clock rate of {name}")
            known[name] = Rates(source, _rates(name, unit))
            _write(known)
        found[name] = observed(cells, known[name].mhz)
    _write({name: known[name] for name in found})
    delays = fitted(list(found.values()))
    clock.COEFFICIENTS.write_text(json.dumps(vars(delays), indent=2) + "\n")
    clock.delays.cache_clear()
    return delays


def left_out() -> Iterator[Prediction]:
    """Yield each design as a fit on the others predicts it, less those that changed since."""
    known, found = measured(), dict[str, Observation]()
    for name, unit in fit_units().items():
        cells = cells_of(unit)
        if name in known and known[name].source == source_of_design(cells):
            found[name] = observed(cells, known[name].mhz)
    for name, item in found.items():
        delays = fitted([other for other in found.values() if other is not item])
        slowest = max(map(delays.of, item.paths))
        period = delays.period(slowest, item.size, item.cells)
        yield Prediction(name, item.mhz, 1e3 / period)


def fit_units() -> dict[str, Unit]:
    """Return the designs of the fit by name, as `python -m tests.bench clock` calls them."""
    chains = {
        f"{name}, chain of {count}": unit
        for name, chain in CHAINS.items()
        for count, unit in chain.items()
    }
    return {**UNITS, **chains}


def measured() -> dict[str, Rates]:
    """Return what was measured, by design."""
    if not DATA.is_file():
        return {}
    return {name: Rates(**item) for name, item in json.loads(DATA.read_text()).items()}


def cells_of(unit: Unit) -> list[Cell]:
    """Return the cells of a design."""
    return [cell for owned in placed_cells(unit.graph()).values() for cell in owned]


def source_of_design(cells: list[Cell]) -> str:
    """Return a short text that changes with the cells of a design and with their modules."""
    text = " ".join(f"{key_of(cell)} {source_of(cell)}" for cell in cells)
    return sha256(text.encode()).hexdigest()[:16]


def observed(cells: list[Cell], mhz: list[float]) -> Observation:
    """Return what the fit takes of a design with these clock rates."""
    size = sum(item.lut + item.ff for item in map(of_cell, cells))
    return Observation(clock.paths_of(cells), size, len(cells), statistics.median(mhz))


def fitted(observations: Sequence[Observation]) -> Delays:
    """Return the coefficients of least relative errors of the period."""
    periods = np.array([1e3 / item.mhz for item in observations])
    spreads = np.array(
        [(1.0, math.log2(max(item.size, 2.0)), math.log2(item.cells)) for item in observations]
    )
    best: tuple[float, Delays] | None = None
    for level, carry in product(LEVELS_NS, CARRY_NS):
        logic = Delays(0.0, 0.0, 0.0, float(level), float(carry))
        slowest = np.array([max(map(logic.of, item.paths)) for item in observations])
        rows = spreads / periods[:, None]
        factors = np.linalg.lstsq(rows, (periods - slowest) / periods, rcond=None)[0]
        errors = (spreads @ factors + slowest) / periods - 1
        found = float(errors @ errors)
        if best is None or found < best[0]:
            best = found, Delays(*(round(float(x), 4) for x in (*factors, level, carry)))
    assert best is not None
    return best[1]


def _rates(name: str, unit: Unit) -> list[float]:
    """Place and route a design."""
    from mase_hw.hardware.route import route

    with tempfile.TemporaryDirectory(prefix="mase-hw-clock-") as folder:
        project = checked(unit.emit(Path(folder) / name))
        report = route(project.folder, TARGET, device=DEVICE, speed=SPEED, seeds=SEEDS, rip_up=True)
    return [round(run.fmax_mhz, 2) for run in report.runs]


def _write(rates: Mapping[str, Rates]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(asdict(item))}" for name, item in rates.items()]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n")
