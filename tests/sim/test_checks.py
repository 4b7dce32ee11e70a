"""The rules of streams inside a design are checked while it is simulated, in both engines."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import mase_hw
from mase_hw.emit.design import DesignSummary
from mase_hw.emit.project import Project
from mase_hw.sim import SimulationReport, simulate
from mase_hw.sim.checks import broken_rules, check_text
from tests.engines import both, exact
from tests.flow.perceptrons import quantized
from tests.sim.project import SCALE1, SCALE2, Layer, make_reference, write_project

# A file of a project, what it says, what it is made to say.
ONE_CREDIT_LESS = ("rtl/mase_credits.sv", ".START(DEPTH)", ".START(DEPTH - 1)")
# An activation keeps its results for itself.
STUCK = (
    "rtl/mase_clamp_fixed.sv",
    ".data_out_valid(data_out_0_valid),\n      .data_out_ready(data_out_0_ready)\n  );",
    ".data_out_valid(kept),\n      .data_out_ready(data_out_0_ready)\n  );\n"
    "  assign data_out_0_valid = kept & 1'b0;",
)
UNRESET = ("rtl/mase_result_queue.sv", "      data_out_valid <= 1'b0;\n", "")


def run(folder: Path, engine: str, *chain: Layer, checks: bool | None = True) -> SimulationReport:
    write_project(folder, (chain,))
    return simulate(
        folder, samples=50, engine=engine, stall=0.4, seed=1, checks=checks,
        reference=make_reference(),
    )  # fmt: skip


@pytest.mark.first(1)
@both
@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("unstable_data", "data changed before the beat moved"),
        ("drop_valid", "valid fell before the beat moved"),
    ],
)
def test_a_stream_inside_breaks_a_rule(tmp_path, engine, fault, rule):
    """The last layer holds back the first one, whose fault no port shows as a breach."""
    report = run(tmp_path / "p", engine, replace(SCALE1, fault=fault), SCALE2)
    assert not report.bit_exact
    first = report.violations[0]
    assert (first.port, first.rule) == ("data_out of scale1_fault", rule)
    assert re.fullmatch(rf"data_out of scale1_fault: {rule} \(cycle \d+\)", str(first))


@pytest.mark.full
def test_checks_are_the_default_in_cocotb(tmp_path):
    faulty = replace(SCALE1, fault="unstable_data")
    assert run(tmp_path / "native", "native", faulty, SCALE2, checks=None).violations == ()
    assert run(tmp_path / "cocotb", "cocotb", faulty, SCALE2, checks=None).violations
    assert run(tmp_path / "without", "cocotb", faulty, SCALE2, checks=False).violations == ()


@pytest.mark.first(1)
@both
def test_both_engines_say_the_same(tmp_path, engine):
    """The cycle is the one in which a probe of the same stream sees it."""
    folder = write_project(tmp_path / "p", ((replace(SCALE1, fault="unstable_data"), SCALE2),))
    report = simulate(
        folder, samples=50, engine=engine, stall=0.4, seed=1, checks=True, probes=["scale1"],
        reference=make_reference(),
    )  # fmt: skip
    cycles = {
        item.cycle
        for item in report.violations
        if item.port == "scale1_data_out_0" and item.rule.startswith("data changed")
    }
    inside = [item for item in report.violations if item.port == "data_out of scale1_fault"]
    assert [item.cycle for item in inside] == [min(cycles)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound") / "net"
    return mase_hw.emit_verilog(quantized(8, 4, 3), output=folder, parallelism=2)


def broken(sound: Project, folder: Path, fault: tuple[str, str, str]) -> Path:
    copy = shutil.copytree(sound.folder, folder / "broken")
    name, old, new = fault
    text = (copy / name).read_text()
    assert text.count(old) == 1, (name, old)
    (copy / name).write_text(text.replace(old, new))
    return copy


@pytest.mark.full
def test_a_credit_too_few_is_named_with_its_node(sound, tmp_path):
    """A result never needs the last credit here: every bit and every cycle is right without."""
    folder = broken(sound, tmp_path, ONE_CREDIT_LESS)
    exact(folder, samples=20, stall=0.3)
    report = mase_hw.simulate(folder, samples=20, stall=0.3, checks=True)
    assert not report.bit_exact
    assert report.mismatches == 0
    assert re.fullmatch(
        r"linear_0_\S+, node linear_0: credits_match does not hold \(cycle 0\)",
        str(report.violations[0]),
    )


@pytest.mark.first(1)
@both
def test_a_cell_that_makes_no_progress_is_named(sound, tmp_path, engine):
    folder = broken(sound, tmp_path, STUCK)
    report = mase_hw.simulate(folder, samples=20, engine=engine, checks=True)
    assert not report.bit_exact
    assert re.fullmatch(
        r"relu_1_inst, node relu_1: no result within \d+ cycles of all inputs \(cycle \d+\)",
        str(report.violations[0]),
    )


@pytest.mark.full
def test_what_a_reset_leaves_on_offer(sound, tmp_path):
    folder = broken(sound, tmp_path, UNRESET)
    report = mase_hw.simulate(folder, samples=4, resets=10, checks=True)
    rule = "a beat is on offer although none came since the reset"
    assert rule in {item.rule for item in report.violations}
    named = [item for item in report.violations if item.rule == rule]
    assert all(re.fullmatch(r"data_out\w* of \w+, node \w+", item.port) for item in named)


def test_checks_find_nothing_in_a_sound_design(sound):
    for options in ({"stall": 0.3}, {"resets": 20, "samples": 8}):
        exact(sound, checks=True, **options)


def test_payloads_are_watched_with_their_stream():
    text = """module pair (
    input logic clk, input logic rst,
    input logic [1:0] one, input logic one_valid, output logic one_ready,
    output logic [3:0] data_out, output logic [1:0] data_out_exponent,
    output logic data_out_valid, input logic data_out_ready,
    output logic [7:0] data_out_2, output logic data_out_2_valid, input logic data_out_2_ready,
    output logic pulse_valid);
endmodule
"""
    found = check_text([text]).partition("endmodule")[2]
    assert found.count("bind pair mase_stream_check") == 2
    assert ".data({data_out, data_out_exponent})" in found
    assert ".data({data_out_2})" in found
    assert found.count(".given(|{one_valid})") == 2
    source = check_text([text.replace("output logic one_ready", "input logic one_ready")])
    assert source.count(".given(1'b1)") == 2


def test_the_first_breach_comes_first(sound):
    """Of one cycle, that of the layer before: what it offers goes through the next one.

    Before the reset, none.
    """
    lines = [
        "[5000] %Error: x.sv:7: Assertion failed in top.relu_1_inst.u.before: 'assert' failed.",
        "mase_stream_check: TOP.top.linear_2_inst.check_data_out_0 25000 changed",
        "mase_stream_check: TOP.top.linear_0_inst.check_data_out_0.changed 25000 changed",
        "[15000] %Error: x.sv:7: Assertion failed in top.relu_1_inst.u.in_range: 'assert' failed.",
        "%Error: x.sv:7: Verilog $stop",
    ]
    found = broken_rules(lines, DesignSummary.load(sound.folder))
    assert [str(item) for item in found] == [
        "relu_1_inst.u, node relu_1: in_range does not hold (cycle 0)",
        "data_out_0 of linear_0_inst, node linear_0: changed (cycle 1)",
        "data_out_0 of linear_2_inst, node linear_2: changed (cycle 1)",
    ]
