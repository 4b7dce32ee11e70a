"""Faults built into an emitted perceptron are caught by both engines, and named."""

import re
import shutil
from pathlib import Path

import pytest

import mase_hw
from mase_hw.emit.project import Project
from mase_hw.sim.checker import Mismatch
from tests.engines import each
from tests.flow.perceptrons import quantized

SIZES = (8, 12, 8, 5)

# A file of the project, what it says, what it is made to say.
ROUNDING = (
    "rtl/mase_fixed_round.sv",
    "assign up = half & (sticky | truncated[0]);",
    "assign up = half | sticky;",
)
LANES = ("rtl/mase_clamp_fixed.sv", ".result,", ".result({result[LANES-2:0], result[LANES-1]}),")
DROPPED = (
    "rtl/mase_clamp_fixed.sv",
    ".data_in_valid(data_in_0_valid),",
    ".data_in_valid(data_in_0_valid && beat_q != 20),",
)
COUNTER = (
    "rtl/mase_clamp_fixed.sv",
    "  mase_stream_pipeline #(",
    """  int unsigned beat_q;
  always_ff @(posedge clk) begin
    if (rst) beat_q <= 0;
    else if (data_in_0_valid && data_in_0_ready) beat_q <= beat_q + 1;
  end

  mase_stream_pipeline #(""",
)
UNSTABLE = (
    "rtl/mase_result_queue.sv",
    "if (load) data_out <= memory[read_q];",
    "data_out <= load ? memory[read_q] : data_out ^ WIDTH'(1);",
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("sound") / "net"
    return mase_hw.emit_verilog(quantized(*SIZES), output=folder, parallelism=2)


def broken(sound: Project, folder: Path, *faults: tuple[str, str, str]) -> Path:
    copy = shutil.copytree(sound.folder, folder / "broken")
    for name, old, new in faults:
        text = (copy / name).read_text()
        assert text.count(old) == 1, (name, old)
        (copy / name).write_text(text.replace(old, new))
    return copy


def found_in(folder: Path, engine: str, stall: float = 0.0) -> Mismatch:
    report = mase_hw.simulate(folder, samples=40, engine=engine, stall=stall, seed=3)
    assert not report.bit_exact
    assert report.mismatches > 0
    first = report.first_mismatch
    assert first is not None
    pattern = (
        r"first mismatch in \w+ \(mase_\w+\), stream \w+, element \[[\d, ]+\] of inference \d+: "
        r"expected -?\d+, got -?\d+ \(beat \d+, lane \d+, cycle \d+, seed 3\)"
    )
    assert re.fullmatch(pattern, str(first))
    return first


@each
def test_the_sound_design_passes(sound: Project, engine: str) -> None:
    assert mase_hw.simulate(sound, samples=40, engine=engine, stall=0.3, seed=3).bit_exact


@each
def test_a_wrong_weight(sound: Project, engine: str, tmp_path: Path) -> None:
    """One weight of the row of result 5 of the second layer: no other element may differ first."""
    folder = broken(sound, tmp_path)
    image = folder / "mem" / "linear_2_weight_source_0.mem"
    words = image.read_text().splitlines()
    # Tile (2, 0) holds results 4 and 5 x elements 0 and 1; the high half is result 5.
    word = 2 * (SIZES[1] // 2)
    words[word] = f"{int(words[word], 16) ^ (0x40 << 16):08x}"
    image.write_text("\n".join(words) + "\n")
    first = found_in(folder, engine)
    assert (first.node, first.index, first.beat, first.lane) == ("linear_2", (0, 5), 2, 1)


@pytest.mark.full
@each
def test_rounding_that_is_off_by_one(sound: Project, engine: str, tmp_path: Path) -> None:
    first = found_in(broken(sound, tmp_path, ROUNDING), engine)
    assert first.node == "linear_0"
    assert first.expected is not None
    assert first.got == first.expected + 1


@pytest.mark.full
@each
def test_swapped_lanes(sound: Project, engine: str, tmp_path: Path) -> None:
    first = found_in(broken(sound, tmp_path, LANES), engine, stall=0.2)
    assert first.node == "relu_1"
    assert first.stream == "relu_1_data_out_0"


@pytest.mark.full
@each
def test_a_dropped_beat(sound: Project, engine: str, tmp_path: Path) -> None:
    """Beat 20 of the first rectifier is beat 2 of inference 3; all that follows moves up."""
    first = found_in(broken(sound, tmp_path, DROPPED, COUNTER), engine)
    assert (first.node, first.inference) == ("relu_1", 3)
    assert first.beat >= 2


@pytest.mark.full
@each
def test_unstable_data_under_stalls(sound: Project, engine: str, tmp_path: Path) -> None:
    folder = broken(sound, tmp_path, UNSTABLE)
    report = mase_hw.simulate(folder, samples=40, engine=engine, stall=0.4, seed=3)
    assert not report.bit_exact
    rules = {(item.port, item.rule) for item in report.violations}
    assert ("data_out_0", "data changed before the beat moved") in rules
    assert re.fullmatch(
        r"data_out_0: data changed before the beat moved \(beat \d+, cycle \d+\)",
        str(report.violations[0]),
    )
