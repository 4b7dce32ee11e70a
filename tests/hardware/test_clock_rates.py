"""Predicted clock rates: a path for every kind of part, a fit, and the units that were measured."""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path as FilePath

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import mase_hw
from mase_hw.cells import Adder, Mux, Table
from mase_hw.cells._components import Component
from mase_hw.cli import build_app
from mase_hw.hardware import clock
from mase_hw.hardware._delay_rules import RULES, Path, path
from mase_hw.hardware.clock import Delays, delays
from mase_hw.hardware.estimate import estimate_nodes
from tests.bench import clock_fit
from tests.bench.clock_fit import (
    Observation,
    cells_of,
    fit_units,
    fitted,
    left_out,
    measured,
    observed,
    refit,
)
from tests.bench.clock_units import UNITS, Unit


def test_every_kind_of_part_has_a_path() -> None:
    assert set(RULES) == set(Component.__subclasses__())


def test_a_longer_chain_and_more_choices_take_longer() -> None:
    known = delays()
    assert known.of(path(Adder(24))) > known.of(path(Adder(12))) > 0
    assert known.of(path(Mux(16, 8))) > known.of(path(Mux(4, 8))) > known.of(path(Mux(1, 8)))
    logic, block = (path(Table(256, 8, block=block)) for block in (False, True))
    assert known.of(logic) > known.of(block) == 0
    assert known.period(0.0, 4000, 4) > known.period(0.0, 100, 4)
    assert known.period(0.0, 4000, 8) > known.period(0.0, 4000, 4)


def test_a_fit_finds_the_delays_that_made_its_data() -> None:
    wanted = Delays(1.1, 0.2, 0.3, 0.5, 0.06)
    paths = [Path(levels, bits) for levels in (0, 2, 5) for bits in (0, 8, 20)]
    data = [
        Observation(
            frozenset({item, Path()}),
            size,
            cells,
            1e3 / wanted.period(wanted.of(item), size, cells),
        )
        for item in paths
        for size, cells in ((200.0, 1), (1500.0, 2), (6000.0, 12))
    ]
    found = fitted(data)
    assert vars(found) == pytest.approx(vars(wanted), abs=0.01)


def test_the_units_of_the_fit_are_predicted_within_a_few_percent() -> None:
    known, rates = delays(), measured()
    assert set(rates) == set(fit_units())
    errors = []
    for name in ("linear8x1", "mul", "relu", "add", "argmax", "maxpool", "fp8"):
        item = observed(cells_of(fit_units()[name]), rates[name].mhz)
        guess = 1e3 / known.period(max(map(known.of, item.paths)), item.size, item.cells)
        errors.append(abs(guess / item.mhz - 1))
    assert statistics.median(errors) < 0.1
    assert max(errors) < 0.2


@pytest.fixture
def three(tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Three designs, files of their own, and the names of what is measured."""
    placed: list[str] = []

    def rates(name: str, unit: Unit) -> list[float]:
        placed.append(name)
        return [200.0 + len(name), 210.0 + len(name), 220.0 + len(name)]

    names = ("relu", "add", "argmax")
    monkeypatch.setattr(clock_fit, "fit_units", lambda: {name: UNITS[name] for name in names})
    monkeypatch.setattr(clock_fit, "_rates", rates)
    monkeypatch.setattr(clock_fit, "DATA", tmp_path / "fit.json")
    monkeypatch.setattr(clock, "COEFFICIENTS", tmp_path / "coefficients.json")
    yield placed
    clock.delays.cache_clear()


def test_what_changed_is_measured_again_and_nothing_else(
    three: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = refit()
    assert three == ["relu", "add", "argmax"]
    assert [item.mhz[1] for item in measured().values()] == [214.0, 213.0, 216.0]
    assert delays() == found
    refit()
    assert three == ["relu", "add", "argmax"]
    source = clock_fit.source_of
    monkeypatch.setattr(
        clock_fit, "source_of", lambda cell: source(cell) + "x" * ("argmax" in cell.module)
    )
    assert [item.name for item in left_out()] == ["relu", "add"]
    refit()
    assert three == ["relu", "add", "argmax", "argmax"]


def test_a_prediction_has_not_seen_its_design(three: list[str]) -> None:
    refit()
    before = {item.name: item.predicted_mhz for item in left_out()}
    entries = measured()
    entries["add"].mhz[:] = [90.0, 100.0, 110.0]
    clock_fit._write(entries)
    after = {item.name: item for item in left_out()}
    assert after["add"].measured_mhz == 100.0
    assert after["add"].predicted_mhz == before["add"]
    assert after["add"].error == pytest.approx(before["add"] / 100 - 1)
    assert all(after[name].predicted_mhz != before[name] for name in ("relu", "argmax"))


def test_an_estimate_says_what_limits_the_clock(tmp_path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU())
    project = mase_hw.emit_verilog(model, (torch.randn(4, 16),), output=tmp_path, parallelism=2)
    clock = estimate_nodes(project.mg).clock
    assert clock is not None
    assert (clock.node, clock.module) == ("linear_0", "mase_multiply_accumulate")
    assert 100 < clock.mhz < 250
    assert "limited by linear_0 (mase_multiply_accumulate)" in str(clock)


def test_the_command_prints_the_clock(tmp_path) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\ndef factory():\n    return torch.nn.ReLU(), (torch.randn(4, 8),)\n"
    )
    for words in ([], ["--json"]):
        done = CliRunner().invoke(build_app(), ["estimate", f"{model}:factory", *words])
        assert done.exit_code == 0, done.output
        if words:
            entry = json.loads(done.output)["clock"]
            assert entry["module"] == "mase_clamp_fixed"
            assert entry["part"].startswith("LFE5U-85F")
        else:
            assert "clock about" in done.output
