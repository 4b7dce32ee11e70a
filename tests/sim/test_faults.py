"""Broken designs must be caught by both engines, with a message that says where."""

from dataclasses import replace
from pathlib import Path

import pytest

from mase_hw.errors import SimulationError
from mase_hw.sim import SimulationReport, simulate
from tests.engines import both, each
from tests.sim.project import SCALE1, SCALE2, Layer, make_reference, write_project

SAMPLES = 50
stalls = pytest.mark.parametrize("stall", [0.0, 0.3])


def run(folder: Path, engine: str, stall: float, *chain: Layer) -> SimulationReport:
    write_project(folder, (chain,))
    return simulate(
        folder, samples=SAMPLES, engine=engine, stall=stall, seed=1, reference=make_reference()
    )


@pytest.mark.first(1)
@each
@pytest.mark.parametrize(
    ("fault", "inference", "layer"),
    [
        ("drop_beat", 5, SCALE1),
        ("duplicate_beat", 5, SCALE2),
        ("swap_lanes", 0, SCALE1),
        ("one_too_high", 0, SCALE2),
    ],
)
def test_wrong_elements_name_the_first_layer(tmp_path, engine, fault, inference, layer):
    chain = [replace(item, fault=fault) if item is layer else item for item in (SCALE1, SCALE2)]
    report = run(tmp_path / "project", engine, 0.3, *chain)
    first = report.first_mismatch
    assert not report.bit_exact
    assert report.mismatches > 0
    assert first is not None
    assert first.node == layer.name
    assert first.stream == f"{layer.name}_data_out_0"
    assert first.inference == inference
    assert first.cycle is not None
    assert first.expected != first.got
    assert first.seed == 1
    message = str(first)
    said = f"{layer.name} (scale, net.py:3: y = x)"
    for part in (said, "expected", "got", "beat", "lane", "cycle", "seed 1"):
        assert part in message


@each
def test_last_beat_missing_or_too_many(tmp_path, engine):
    """Eleven beats are swallowed or doubled where there are only twelve: no other beat hides it."""
    for fault, got in (("drop_beat", "no beat"), ("duplicate_beat", None)):
        folder = write_project(tmp_path / fault, ((SCALE1, replace(SCALE2, fault=fault)),))
        report = simulate(folder, samples=6, engine=engine, reference=make_reference())
        assert not report.bit_exact
        assert report.mismatches >= 2
        assert report.elements == 6 * 6
        if got is not None:
            assert (report.outputs["data_out_0"][-1, 4:] == 0).all()


@each
def test_floor_instead_of_nearest(tmp_path, engine):
    report = run(tmp_path / "project", engine, 0.0, replace(SCALE1, floors=True), SCALE2)
    first = report.first_mismatch
    assert first is not None
    assert first.node == "scale1"
    assert first.expected is not None
    assert first.got == first.expected - 1


@each
def test_wrong_weight(tmp_path, engine):
    weights = (*SCALE1.weights[:4], SCALE1.weights[4] + 8, SCALE1.weights[5])
    report = run(tmp_path / "project", engine, 0.0, replace(SCALE1, weights=weights), SCALE2)
    first = report.first_mismatch
    assert first is not None
    assert (first.node, first.index, first.beat, first.lane) == ("scale1", (0, 4), 1, 0)


@pytest.mark.first(1)
@both
@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("unstable_data", "data changed before the beat moved"),
        ("drop_valid", "valid fell before the beat moved"),
    ],
)
def test_broken_stream_rules(tmp_path, engine, fault, rule):
    report = run(tmp_path / "project", engine, 0.4, SCALE1, replace(SCALE2, fault=fault))
    assert not report.bit_exact
    assert report.mismatches == 0
    inside = {"data_out of scale2_fault"} if engine == "cocotb" else set()
    assert {item.port for item in report.violations} == {"data_out_0", *inside}
    assert {item.rule for item in report.violations} == {rule}


@pytest.mark.full
def test_valid_that_waits_for_ready(tmp_path):
    faulty = replace(SCALE2, fault="wait_for_ready")
    report = run(tmp_path / "native", "native", 0.4, SCALE1, faulty)
    rules = {item.rule for item in report.violations}
    assert "valid depends on ready in the same cycle" in rules
    # The testbench lowers ready until a beat is offered, and neither side moves any more.
    with pytest.raises(SimulationError, match="data_out_0 has no valid beat"):
        run(tmp_path / "cocotb", "cocotb", 0.4, SCALE1, faulty)


@each
@stalls
def test_hang_names_the_ports_and_streams(tmp_path, engine, stall):
    with pytest.raises(SimulationError) as error:
        run(tmp_path / "project", engine, stall, SCALE1, replace(SCALE2, fault="hang"))
    message = str(error.value)
    assert "the design hangs: no beat moved for" in message
    assert "data_in_0 waits for ready (beat 12 of 100)" in message
    assert "data_out_0 has no valid beat (beat 10 of 100)" in message
    assert "scale1_data_out_0 of scale1 is valid but not accepted" in message


@pytest.mark.full
@each
def test_mismatch_names_the_waveform(tmp_path, engine):
    folder = write_project(tmp_path / "p", ((SCALE1, replace(SCALE2, fault="one_too_high")),))
    report = simulate(folder, samples=2, engine=engine, waves=True, reference=make_reference())
    assert report.first_mismatch is not None
    assert report.first_mismatch.waveform == str(folder / "sim" / "waves.vcd")
    assert (folder / "sim" / "waves.vcd").is_file()
