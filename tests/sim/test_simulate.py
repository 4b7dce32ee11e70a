"""Both engines on a sound design: equal to the reference, in the predicted cycles."""

import json
import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import mase_hw
from mase_hw.emit.design import DesignSummary, Stream
from mase_hw.errors import SimulationError
from mase_hw.formats.fixed import Fixed
from mase_hw.ops import TensorSpec
from mase_hw.sim import SimulationReport, simulate
from mase_hw.sim.engine import RunRequest, RunResult
from mase_hw.sim.layout import FieldLayout, StreamLayout, storage_bytes
from mase_hw.sim.simulate import ENGINES, LEAST_INFERENCES, between_bunches, keep_interval
from tests.engines import both, exact
from tests.sim.project import (
    ELEMENTS,
    FORMAT,
    TWO_CHAINS,
    make_reference,
    write_project,
)

KEYS = {
    *("bit_exact", "elements", "mismatches", "inferences", "cycles", "engine"),
    *("interval_cycles", "predicted_interval_cycles", "latency_cycles"),
    *("predicted_latency_cycles", "seconds", "cycles_per_second"),
}
reference = make_reference()


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return write_project(tmp_path_factory.mktemp("chain") / "project")


@pytest.mark.first(1)
@both
@pytest.mark.parametrize("stall", [0.0, 0.3, 0.8])
def test_bit_exact_under_stalls(project, engine, stall):
    report = simulate(project, samples=100, engine=engine, stall=stall, seed=3, reference=reference)
    assert report.bit_exact, report.first_mismatch or report.violations
    assert (report.elements, report.mismatches, report.inferences) == (100 * ELEMENTS, 0, 100)


@both
def test_cycles_are_as_predicted_without_stalls(project, engine):
    report = simulate(project, samples=50, engine=engine, reference=reference)
    assert report.interval_cycles == report.predicted_interval_cycles
    assert report.latency_cycles == report.predicted_latency_cycles


@both
def test_stalls_slow_the_design_down(project, engine):
    report = simulate(project, samples=100, engine=engine, stall=0.5, reference=reference)
    assert report.interval_cycles is not None
    assert report.interval_cycles > 1.3 * report.predicted_interval_cycles


@pytest.mark.first(1)
@both
def test_inputs_or_outputs_stall_alone(project, engine, monkeypatch):
    """Idle inputs delay what comes in, back-pressure what goes out."""
    results = []
    run = ENGINES[engine]

    def record(request: RunRequest) -> RunResult:
        results.append(run(request))
        return results[-1]

    monkeypatch.setitem(ENGINES, engine, record)  # type: ignore[arg-type]

    def gaps(stall: float, stalled: str, seed: int = 3) -> tuple[int, int]:
        """Return the first beat's cycle, and the cycles from the last beat in to the last out."""
        options = {"engine": engine, "stall": stall, "stalled": stalled, "reference": reference}
        report = simulate(project, samples=20, seed=seed, **options)  # type: ignore[arg-type]
        assert report.bit_exact, report.first_mismatch or report.violations
        assert (report.stall, report.stalled) == (stall, stalled)
        taken, given = (results[-1].streams[f"data_{end}_0"].cycles for end in ("in", "out"))
        return int(taken[0]), int(given[-1] - taken[-1])

    first, passage = gaps(0.0, "both")
    idle_first, idle_passage = gaps(0.95, "inputs")
    # Pauses come in phases: the last beat may meet none.
    pressed = [gaps(0.95, "outputs", seed) for seed in range(3, 7)]
    pressed_passage = max(cycles for _, cycles in pressed)
    assert idle_first > first
    assert {cycle for cycle, _ in pressed} == {first}
    # A tail without stalls at the outputs is as fast as ever.
    assert idle_passage <= passage < pressed_passage


@pytest.mark.first(1)
@both
def test_probes_are_compared(project, engine):
    report = simulate(
        project, samples=20, engine=engine, stall=0.3, probes=["scale1"], reference=reference
    )
    assert report.bit_exact
    assert report.elements == 2 * 20 * ELEMENTS


@pytest.mark.first(1)
@both
def test_several_inputs_and_outputs(tmp_path, engine):
    folder = write_project(tmp_path / "two", TWO_CHAINS)
    model = make_reference(TWO_CHAINS)
    for stall in (0.0, 0.4):
        report = simulate(folder, samples=30, engine=engine, stall=stall, reference=model)
        assert report.bit_exact
        assert report.elements == 2 * 30 * ELEMENTS
        assert list(report.outputs) == ["data_out_0", "data_out_1"]


@pytest.mark.first(1)
@both
def test_waveform(project, engine):
    report = simulate(project, samples=5, engine=engine, waves=True, reference=reference)
    assert report.bit_exact
    assert report.waveform == project / "sim" / "waves.vcd"
    text = report.waveform.read_text()
    assert "$enddefinitions" in text
    assert "data_out_0_valid" in text
    report.waveform.unlink()


def test_engines_agree(project):
    reports = [simulate(project, samples=40, engine=name, reference=reference) for name in ENGINES]
    first, second = reports
    assert torch.equal(first.outputs["data_out_0"], second.outputs["data_out_0"])
    assert first.latency_cycles == second.latency_cycles


def test_json_is_one_object_with_the_promised_keys(project):
    report = simulate(project, samples=3, reference=reference)
    entry = json.loads(json.dumps(report.to_dict()))
    assert set(entry) >= KEYS
    assert entry["bit_exact"] is True
    assert entry["engine"] == "native"


@pytest.mark.full
def test_outputs_are_saved(project, tmp_path):
    values = torch.linspace(-8, 7, 4 * ELEMENTS).reshape(4, ELEMENTS)
    simulate(project, values, outputs=tmp_path / "y.npz", reference=reference)
    saved = np.load(tmp_path / "y.npz")
    expected = reference([FORMAT.encode(values)], ["scale2"])["scale2"]
    assert np.array_equal(saved["codes"], expected.numpy())
    assert np.array_equal(saved["values"], FORMAT.decode(expected).numpy())


def test_inputs_in_every_container(project, tmp_path):
    values = torch.linspace(-9, 9, 3 * ELEMENTS).reshape(3, ELEMENTS)
    np.savez(tmp_path / "x.npz", x=values.numpy())
    np.save(tmp_path / "x.npy", values.numpy())
    given = [
        values,
        values.reshape(3, 1, ELEMENTS),
        values.numpy(),
        [values],
        {"data_in_0": values},
        {"x0": values},
        tmp_path / "x.npz",
        str(tmp_path / "x.npy"),
    ]
    found = [simulate(project, item, reference=reference).outputs["data_out_0"] for item in given]
    assert all(torch.equal(item, found[0]) for item in found)
    report = simulate(project, values, samples=2, reference=reference)
    assert report.inferences == 2


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([torch.zeros(1, 6), torch.zeros(1, 6)], "2 inputs were given; the design has 1"),
        (3.0, r"shape \(\); expected \(N, 6\)"),
    ],
)
def test_wrong_inputs(project, inputs, message):
    with pytest.raises(SimulationError, match=message):
        simulate(project, inputs, reference=reference)
    with pytest.raises(SimulationError, match="stalled is 'left'; allowed: both, inputs, outputs"):
        simulate(project, stalled="left", reference=reference)


@pytest.mark.full
def test_reports_are_the_same_for_the_same_seed(project):
    def run(seed: int) -> SimulationReport:
        return simulate(project, samples=30, stall=0.4, seed=seed, reference=reference)

    assert run(5).cycles == run(5).cycles
    assert torch.equal(run(5).outputs["data_out_0"], run(5).outputs["data_out_0"])
    assert not torch.equal(run(5).outputs["data_out_0"], run(6).outputs["data_out_0"])


def test_broken_source_is_one_message(tmp_path):
    folder = write_project(tmp_path / "broken")
    (folder / "top.sv").write_text("module top; not verilog endmodule\n")
    with pytest.raises(SimulationError, match="verilating the simulation failed") as error:
        simulate(folder, samples=1, reference=reference)
    assert "top.sv" in str(error.value)


LATENCY, INTERVAL = 300, 100
LATES = {"none": [0], "pairs": [0, -32], "fours": [32, 0, 0, 32], "fives": [13, -40, 0, 5, 0]}


def ends(late, interval, count):
    """Return the ends of inferences that wait more at first, and less at last."""
    turns = np.resize(late, count)
    turns[:3], turns[-2:] = 60, (-30, -90)
    return LATENCY + interval * np.arange(count) + turns


@pytest.mark.parametrize("name", LATES)
@pytest.mark.parametrize("count", [LEAST_INFERENCES, 40, 101])
def test_an_interval_is_that_between_bunches(name, count):
    ended = ends(LATES[name], INTERVAL, count)
    assert between_bunches(ended, LATENCY) == pytest.approx(INTERVAL, abs=3)
    assert keep_interval(ended, LATENCY, INTERVAL)


@pytest.mark.parametrize("name", LATES)
@pytest.mark.parametrize("interval", [INTERVAL - 1, INTERVAL + 1])
def test_another_interval_is_not_as_predicted(name, interval):
    assert not keep_interval(ends(LATES[name], interval, 60), LATENCY, INTERVAL)


def test_few_inferences_are_not_measured():
    assert between_bunches(ends([0], INTERVAL, LEAST_INFERENCES - 1), LATENCY) is None


def test_three_layers_that_share_a_port_are_as_predicted(tmp_path):
    torch.manual_seed(7)
    sizes = (12, 24, 24, 6)
    layers = [nn.Linear(*pair) for pair in pairwise(sizes)]
    memory = {"default": "external", "latency_cycles": 6, "bytes_per_cycle": 4}
    project = mase_hw.emit_verilog(
        nn.Sequential(*layers),
        torch.randn(8, 12),
        output=tmp_path / "p",
        parallelism=2,
        memory=memory,
    )
    for samples in (8, 40):
        report = exact(project, samples=samples)
        assert report.as_predicted
    assert report.interval_cycles == report.predicted_interval_cycles


def stream(shape: tuple[int, ...], width: int, parallelism: tuple[int, int]) -> Stream:
    return Stream("s", "n", TensorSpec(shape, "float32", Fixed(width, 0), parallelism))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 32), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_beats_are_the_integers_they_stand_for(width, lanes, seed):
    generator = np.random.default_rng(seed)
    patterns = generator.integers(0, 1 << width, (5, lanes))
    field = FieldLayout("f", "", lanes, width, 0)
    packed = field.pack(patterns)
    for row, values in zip(packed, patterns, strict=True):
        whole = sum(int(value) << (width * lane) for lane, value in enumerate(values))
        assert int.from_bytes(row.tobytes(), "little") == whole
    assert np.array_equal(field.unpack(packed), patterns)


def test_storage_is_that_of_verilator():
    sizes = {1: 1, 8: 1, 9: 2, 16: 2, 17: 4, 32: 4, 33: 8, 64: 8, 65: 12, 96: 12, 512: 64}
    assert {width: storage_bytes(width) for width in sizes} == sizes


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 5), st.integers(1, 7)),
    st.integers(2, 13),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
)
def test_garbage_fills_padding_alone(shape, width, parallelism):
    layout = StreamLayout(stream(shape, width, parallelism))
    spec = layout.stream.spec
    codes = spec.quantized.random_codes((3, *shape), torch.Generator().manual_seed(1))
    clean = layout.pack(codes)
    dirty = layout.pack(codes, np.random.default_rng(2))
    mask = np.tile(layout.mask(), (3, 1))
    assert np.array_equal(clean & mask, dirty & mask)
    assert torch.equal(spec.from_beats(layout.unpack(dirty)), codes)
    assert ((layout.elements < 0).any()) == (spec.beats * spec.lanes > spec.elements)


def test_garbage_is_there():
    layout = StreamLayout(stream((1, 5), 8, (1, 4)))
    codes = torch.zeros(50, 1, 5, dtype=torch.int64)
    assert layout.pack(codes, np.random.default_rng(0)).any()
    assert not layout.pack(codes).any()


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(12, 12)

    def forward(self, x):
        return self.a(x) + x


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory):
    """A project whose queue is too short in the hardware alone."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("stall") / "residual"
    project = mase_hw.emit_verilog(Residual().eval(), torch.randn(4, 12), output=folder)
    top = folder / "top.sv"
    text, count = re.subn(r"(DEPTH\()\d+(\)\) x_fifo_inst)", r"\g<1>3\2", top.read_text())
    assert count == 1
    top.write_text(text)
    return project


@pytest.mark.parametrize(
    ("engine", "stall"), [("native", 0.3), pytest.param("cocotb", 0.0, marks=pytest.mark.full)]
)
def test_a_stall_names_the_queue_and_its_ends(shrunk, engine, stall):
    with pytest.raises(SimulationError) as error:
        mase_hw.simulate(shrunk, samples=20, engine=engine, stall=stall)
    message = str(error.value)
    summary = DesignSummary.load(shrunk.folder)
    states = [line.strip() for line in message.splitlines() if " queue " in line]
    assert states == [
        f"queue x_fifo is full (3 of {summary.queues[0].depth} beats): "
        "from x (x_fork_0 valid 1, ready 0) "
        "to add (x_fifo_data_out_0 valid 1, ready 0)"
    ]
    found = re.search(r"no beat moved for \d+ cycles before cycle (\d+)", message)
    assert int(found[1]) <= 100 * summary.interval_cycles / (1 - stall)
