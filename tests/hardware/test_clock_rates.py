"""Predicted clock rates: a path for every kind of part, a fit, and the units that were measured."""

import json
import statistics

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import mase_hw
from mase_hw.cells import Adder, Logic, Mux, Table
from mase_hw.cells._components import Component
from mase_hw.cli import build_app
from mase_hw.hardware.clock import RULES, Delays, Path, delays, path
from mase_hw.hardware.estimate import estimate_nodes
from tests.bench.clock_fit import (
    Observation,
    cells_of,
    fit_units,
    fitted,
    measured,
    observed,
)


def test_every_kind_of_part_has_a_path():
    # The levels between two registers of unrolled logic are chosen, not estimated.
    assert set(RULES) == set(Component.__subclasses__()) - {Logic}


def test_a_longer_chain_and_more_choices_take_longer():
    known = delays()
    assert known.of(path(Adder(24))) > known.of(path(Adder(12))) > 0
    assert known.of(path(Mux(16, 8))) > known.of(path(Mux(4, 8))) > known.of(path(Mux(1, 8)))
    logic, block = (path(Table(256, 8, block=block)) for block in (False, True))
    assert known.of(logic) > known.of(block) == 0
    assert known.period(0.0, 4000, 4) > known.period(0.0, 100, 4)
    assert known.period(0.0, 4000, 8) > known.period(0.0, 4000, 4)


def test_a_fit_finds_the_delays_that_made_its_data():
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


def test_the_units_of_the_fit_are_predicted_within_a_few_percent():
    known, rates = delays(), measured()
    assert set(rates) == set(fit_units())
    errors = []
    for name in ("linear8x1", "mul", "relu", "add", "argmax", "maxpool", "fp8"):
        item = observed(cells_of(fit_units()[name]), rates[name].mhz)
        guess = 1e3 / known.period(max(map(known.of, item.paths)), item.size, item.cells)
        errors.append(abs(guess / item.mhz - 1))
    assert statistics.median(errors) < 0.1
    assert max(errors) < 0.2


def test_an_estimate_says_what_limits_the_clock(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU())
    project = mase_hw.emit_verilog(model, (torch.randn(4, 16),), output=tmp_path, parallelism=2)
    clock = estimate_nodes(project.mg).clock
    assert clock is not None
    assert (clock.node, clock.module) == ("linear_0", "mase_multiply_accumulate")
    assert 100 < clock.mhz < 250
    assert "limited by linear_0 (mase_multiply_accumulate)" in str(clock)


def test_the_command_prints_the_clock(tmp_path):
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
