"""Resets in any cycle, a memory that misses one, and runs of any length in constant memory."""

import shutil

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import SimulationError
from tests.engines import each, exact

SMALL = {"by": "type", "default": {"config": {"name": "fixed", "data_in_width": 6}}}


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("life") / "layers"
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
    return mase_hw.emit_verilog(model, torch.randn(4, 6), output=folder, config=SMALL)


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("life") / "outside"
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4)).eval()
    return mase_hw.emit_verilog(
        model, torch.randn(4, 8), output=folder, config=SMALL, parallelism=2, memory="external"
    )


@pytest.mark.first(1)
@each
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_a_reset_in_any_cycle_leaves_nothing_behind(layers, engine, stall):
    report = mase_hw.simulate(layers, samples=6, engine=engine, resets=25, stall=stall)
    assert report.is_right, report.violations or report.first_mismatch
    assert report.resets == 25
    assert report.followed >= 5


@pytest.mark.full
@each
def test_a_register_that_a_reset_forgets_is_found(layers, engine, tmp_path):
    """At the start it may hold what it should: only a later reset shows it."""
    folder = tmp_path / "copy"

    shutil.copytree(layers.folder, folder)
    path = folder / "rtl" / "mase_rom_source.sv"
    text = path.read_text()
    first = "AddressWidth'(FirstAddress);"
    assert text.count(f"      address_q <= {first}\n") == 1
    path.write_text(
        text.replace(f"      address_q <= {first}\n", "").replace(
            "address_q;", f"address_q = {first}", 1
        )
    )
    assert mase_hw.simulate(folder, samples=6, engine=engine).is_right
    report = mase_hw.simulate(folder, samples=6, engine=engine, resets=10)
    assert not report.is_right


@pytest.mark.full
@each
def test_the_memory_is_reset_with_the_design(outside, engine):
    report = mase_hw.simulate(outside, samples=6, engine=engine, resets=20, stall=0.2)
    assert report.is_right, report.violations or report.first_mismatch
    alone = mase_hw.simulate(
        outside, samples=6, engine=engine, resets=20, reset_memory=False, stall=0.2
    )
    rules = {item.rule for item in alone.violations if item.port == "m_axi"}
    assert "the design was reset while bursts were on their way" in rules


@each
def test_a_memory_that_never_answers_is_named(outside, engine):
    with pytest.raises(SimulationError, match="the memory behind m_axi does not answer"):
        mase_hw.simulate(outside, samples=2, engine=engine, memory={"answered_beats": 0})


@pytest.mark.full
@each
def test_a_memory_that_is_late_changes_no_bit(outside, engine):
    late = {"latency_cycles": 150, "cycles_per_beat": 5}
    exact(outside, samples=3, engine=engine, memory=late)


@pytest.mark.full
def test_memory_does_not_grow_with_the_length_of_a_run(layers):
    short, long = (mase_hw.simulate(layers, samples=10, repeats=n) for n in (100, 10_000))
    assert long.is_right
    assert long.elements == short.elements == 30
    assert long.cycles > 50 * short.cycles
    assert 1000 < long.peak_kib < short.peak_kib + 512
    kept = mase_hw.simulate(layers, samples=50_000)
    assert kept.peak_kib > long.peak_kib + 2048  # What is kept shows.


@pytest.mark.full
def test_a_pass_that_differs_from_the_first_is_found(layers, tmp_path):
    """A register that counts inferences, and turns a bit of the fortieth."""

    folder = tmp_path / "copy"
    shutil.copytree(layers.folder, folder)
    path = folder / "rtl" / "mase_rom_source.sv"
    text = path.read_text()
    old = "    if (advance) data_out <= word;\n"
    assert text.count(old) == 1
    new = (
        "    if (advance) begin\n      data_out <= (count_q == 4000) ? ~word : word;\n"
        "      count_q <= count_q + 1;\n    end\n"
    )
    path.write_text(
        text.replace(old, new).replace(
            "  logic word_valid;\n", "  logic word_valid;\n  int unsigned count_q = 0;\n", 1
        )
    )
    assert mase_hw.simulate(folder, samples=10).is_right
    report = mase_hw.simulate(folder, samples=10, repeats=500)
    assert not report.bit_exact
    assert {item.rule for item in report.violations} == {
        "the beat differs from that of the first pass"
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resets": -1}, "resets is -1; allowed: a number from 0"),
        ({"repeats": 0}, "repeats is 0; allowed: a number from 1"),
        ({"repeats": 2, "engine": "cocotb"}, "engine is cocotb"),
        ({"repeats": 2, "resets": 1}, "resets and repeats cannot be combined"),
        ({"resets": 1, "reset_memory": False}, "no external memory that could miss a reset"),
    ],
)
def test_options_that_cannot_be(layers, options, message):
    with pytest.raises(SimulationError, match=message):
        mase_hw.simulate(layers, samples=2, **options)
