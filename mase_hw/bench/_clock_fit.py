"""The clock rates that predictions are fitted on: units, and chains of them."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from mase_hw.bench._clock_units import CHAINS, UNITS, Unit
from mase_hw.hardware import clock
from mase_hw.hardware.estimate import of_cell, placed_cells

DATA = Path(clock.__file__).with_name("clock_fit.json")

Progress = Callable[[str], None]


def refit(progress: Progress | None = None) -> clock.Delays:
    """Measure the designs that no one measured, fit, and write both files."""
    say = progress or (lambda _: None)
    rates = measured()
    known = fit_units()
    for name, unit in known.items():
        if name not in rates:
            say(f"clock rate of {name}")
            rates[name] = _rates(name, unit)
            _write(rates)
    found = clock.fitted([observed(unit, rates[name]) for name, unit in known.items()])
    clock.COEFFICIENTS.write_text(json.dumps(vars(found), indent=2) + "\n")
    clock.delays.cache_clear()
    return found


def fit_units() -> dict[str, Unit]:
    """Return the designs of the fit by name, as `mase-hw bench clock` calls them."""
    chains = {
        f"{name}, chain of {count}": unit
        for name, chain in CHAINS.items()
        for count, unit in chain.items()
    }
    return {**UNITS, **chains}


def measured() -> dict[str, list[float]]:
    """Return the rates in MHz of each design, one a seed."""
    if not DATA.is_file():
        return {}
    found: dict[str, list[float]] = json.loads(DATA.read_text())
    return found


def observed(unit: Unit, rates: list[float]) -> clock.Observation:
    """Return what the fit takes of a unit."""
    cells = [cell for owned in placed_cells(unit.graph()).values() for cell in owned]
    size = sum(item.lut + item.ff for item in map(of_cell, cells))
    return clock.Observation(clock.paths_of(cells), size, len(cells), statistics.median(rates))


def _rates(name: str, unit: Unit) -> list[float]:
    """Place and route a unit."""
    from mase_hw.bench.clock import DEVICE, SEEDS, SPEED, TARGET, checked
    from mase_hw.hardware.route import route

    with tempfile.TemporaryDirectory(prefix="mase-hw-clock-") as folder:
        project = checked(unit.emit(Path(folder) / name))
        report = route(project.folder, TARGET, device=DEVICE, speed=SPEED, seeds=SEEDS, rip_up=True)
    return [round(run.fmax_mhz, 2) for run in report.runs]


def _write(rates: Mapping[str, list[float]]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(item)}" for name, item in rates.items()]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n")
