"""The clock rates that predictions are fitted on: units, and chains of them."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from mase_hw.bench._clock_units import CHAINS, UNITS, Unit
from mase_hw.bench._fit import key_of, source_of
from mase_hw.cells import Cell
from mase_hw.hardware import clock
from mase_hw.hardware.estimate import of_cell, placed_cells

DATA = Path(clock.__file__).with_name("clock_fit.json")

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


def refit(progress: Progress | None = None) -> clock.Delays:
    """Measure the designs that are new or changed, fit, and write both files."""
    say = progress or (lambda _: None)
    known, found = measured(), dict[str, clock.Observation]()
    for name, unit in fit_units().items():
        cells = cells_of(unit)
        source = source_of_design(cells)
        if name not in known or known[name].source != source:
            say(f"clock rate of {name}")
            known[name] = Rates(source, _rates(name, unit))
            _write(known)
        found[name] = observed(cells, known[name].mhz)
    _write({name: known[name] for name in found})
    delays = clock.fitted(list(found.values()))
    clock.COEFFICIENTS.write_text(json.dumps(vars(delays), indent=2) + "\n")
    clock.delays.cache_clear()
    return delays


def left_out() -> Iterator[Prediction]:
    """Yield each design as a fit on the others predicts it, less those that changed since."""
    known, found = measured(), dict[str, clock.Observation]()
    for name, unit in fit_units().items():
        cells = cells_of(unit)
        if name in known and known[name].source == source_of_design(cells):
            found[name] = observed(cells, known[name].mhz)
    for name, item in found.items():
        delays = clock.fitted([other for other in found.values() if other is not item])
        slowest = max(map(delays.of, item.paths))
        period = delays.period(slowest, item.size, item.cells)
        yield Prediction(name, item.mhz, 1e3 / period)


def fit_units() -> dict[str, Unit]:
    """Return the designs of the fit by name, as `mase-hw bench clock` calls them."""
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


def observed(cells: list[Cell], mhz: list[float]) -> clock.Observation:
    """Return what the fit takes of a design with these clock rates."""
    size = sum(item.lut + item.ff for item in map(of_cell, cells))
    return clock.Observation(clock.paths_of(cells), size, len(cells), statistics.median(mhz))


def _rates(name: str, unit: Unit) -> list[float]:
    """Place and route a design."""
    from mase_hw.bench.clock import DEVICE, SEEDS, SPEED, TARGET, checked
    from mase_hw.hardware.route import route

    with tempfile.TemporaryDirectory(prefix="mase-hw-clock-") as folder:
        project = checked(unit.emit(Path(folder) / name))
        report = route(project.folder, TARGET, device=DEVICE, speed=SPEED, seeds=SEEDS, rip_up=True)
    return [round(run.fmax_mhz, 2) for run in report.runs]


def _write(rates: Mapping[str, Rates]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(asdict(item))}" for name, item in rates.items()]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n")
