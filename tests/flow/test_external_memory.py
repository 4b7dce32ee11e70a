"""Weights that come through an AXI4 port: bit-exact, in time, and every fault is named."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import mase_hw
from mase_hw.cells import Image
from mase_hw.emit.build import pack_image
from mase_hw.emit.design import DesignSummary
from mase_hw.emit.flow import quantize
from mase_hw.emit.project import Project
from mase_hw.errors import ConfigError, SimulationError
from mase_hw.graph import trace
from mase_hw.graph.memory import MemoryPort
from mase_hw.passes.hardware.memory import place_constants
from mase_hw.timing.memory import ExternalMemory, Region
from tests.engines import as_predicted, each, exact
from tests.flow.perceptrons import by_type, quantized
from tests.rtl_bench import lint_top

SIZES = (8, 12, 8, 5)
# Words of 24 bits, which no beat of 64 bits holds in whole numbers.
FORMATS = by_type(data_in_width=8, weight_width=6, bias_width=8)

# What the module of the port says, what it is made to say, and the rule that breaks.
PORT = "rtl/mase_axi_read_port.sv"
ADDRESS = "<= BASE_ADDRESS + offset;"
BROKEN_RULES = {
    "crosses": (ADDRESS, ADDRESS.replace(";", " + 4088;"), "crosses 4 KiB"),
    "size": ("3'($clog2(DATA_WIDTH / 8))", "3'd0", "not incremental in whole beats"),
    "leaves": (ADDRESS, ADDRESS.replace(";", " + 65536;"), "leaves the image"),
    "falls": ("if (!m_axi_arvalid || m_axi_arready) m_axi_arv", "m_axi_arv", "arvalid fell"),
    "changes": ("if (ask) begin\n      m_axi_ar", "begin\n      m_axi_ar", "the burst changed"),
    "many": ("&& !full_q", "", "too many bursts"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Three layers that share the port, bound by its bandwidth."""
    memory = {"default": "external", "bytes_per_cycle": 2, "latency_cycles": 20, "outstanding": 6}
    return mase_hw.emit_verilog(
        quantized(*SIZES, config=FORMATS),
        output=tmp_path_factory.mktemp("external") / "net",
        parallelism=2,
        memory={**memory, "burst_beats": 4},
    )


def copied(sound: Project, folder: Path) -> Path:
    return shutil.copytree(sound.folder, folder / "copy")


def test_the_interval_and_the_latency_are_exact(sound):
    memory = sound.design.external
    assert memory is not None
    beats = sum(-(-words * 24 // 64) for words in (4 * 6, 6 * 4, 4 * 3))
    assert sound.design.interval_cycles == memory.cycles == 4 * beats
    assert sound.design.interval_cycles > max(node.work_cycles for node in sound.design.nodes)
    report = exact(sound, samples=100)
    assert report.interval_cycles == report.predicted_interval_cycles
    alone = mase_hw.simulate(sound, samples=1)
    assert alone.latency_cycles == alone.predicted_latency_cycles


@pytest.mark.full
@each
def test_a_port_that_asks_only_when_the_memory_is_ready_is_found(sound, engine, tmp_path):
    """A memory may be ready only for what is asked of it: both would wait for ever."""
    folder = copied(sound, tmp_path)
    path = folder / PORT
    text = path.read_text()
    old = "  assign accept = (!m_axi_arvalid || m_axi_arready) &&"
    assert text.count(old) == 1
    path.write_text(text.replace(old, "  assign accept = m_axi_arready &&"))
    exact(folder, samples=5, engine=engine)
    with pytest.raises(SimulationError, match="the design hangs"):
        mase_hw.simulate(folder, samples=40, engine=engine, stall=0.3)


@pytest.mark.full
@each
def test_reading_for_ever_is_a_hang(sound, engine, tmp_path):
    """The sources take all words, and what they belong to gets none of them."""
    folder = copied(sound, tmp_path)
    path = folder / "top.sv"
    text = path.read_text()
    for old, new in (
        (".data_out_ready(linear_0_weight_ready)", ".data_out_ready(1'b1)"),
        (".weight_valid(linear_0_weight_valid)", ".weight_valid(1'b0)"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text)
    with pytest.raises(SimulationError, match="the design hangs"):
        mase_hw.simulate(folder, samples=5, engine=engine)


@each
def test_stalls_of_the_memory_change_no_bit(sound, engine):
    report = exact(sound, samples=40, engine=engine, stall=0.3, seed=3)
    assert report.memory is not None
    assert report.memory.beats > 0


@pytest.mark.full
def test_the_engines_agree_on_every_cycle(sound):
    reports = [mase_hw.simulate(sound, samples=20, engine=name) for name in ("native", "cocotb")]
    assert reports[0].interval_cycles == reports[1].interval_cycles
    assert reports[0].latency_cycles == reports[1].latency_cycles


def test_a_slower_memory_is_slower_and_right(sound):
    report = exact(sound, samples=40, memory={"cycles_per_beat": 8})
    assert report.interval_cycles == pytest.approx(2 * report.predicted_interval_cycles, rel=0.02)


@each
def test_a_wrong_word_is_located(sound, engine, tmp_path):
    """The first word of the second layer: results 0 and 1, of which 0 lies in the low bits."""
    folder = copied(sound, tmp_path)
    summary = DesignSummary.load(folder)
    assert summary.external is not None
    region = summary.external.regions[1]
    path = folder / summary.external.file
    image = bytearray(path.read_bytes())
    image[region.offset] ^= 0x20
    path.write_bytes(image)
    report = mase_hw.simulate(folder, samples=40, engine=engine)
    assert not report.bit_exact
    assert report.first_mismatch is not None
    assert report.first_mismatch.node == region.node
    assert report.first_mismatch.index == (0, 0)


@each
def test_an_error_response_is_reported(sound, engine):
    report = mase_hw.simulate(sound, samples=20, engine=engine, memory={"error_beat": 50})
    assert not report.bit_exact
    assert "the memory answered with an error" in str(report.violations[0])


@each
def test_a_memory_that_stops_is_named(sound, engine):
    with pytest.raises(SimulationError, match=r"the memory behind m_axi does not answer: \d+ of"):
        mase_hw.simulate(sound, samples=20, engine=engine, memory={"answered_beats": 70})


@pytest.mark.parametrize("name", ["crosses", "falls", *(
    pytest.param(name, marks=pytest.mark.full) for name in ("size", "leaves", "changes", "many")
)])  # fmt: skip
def test_a_broken_rule_of_the_port_is_reported(sound, name, tmp_path):
    old, new, rule = BROKEN_RULES[name]
    folder = copied(sound, tmp_path)
    text = (folder / PORT).read_text()
    assert text.count(old) == 1
    (folder / PORT).write_text(text.replace(old, new))
    try:
        report = mase_hw.simulate(folder, samples=20, stall=0.5, seed=1)
    except SimulationError as error:
        assert rule in str(error)
    else:
        assert not report.bit_exact
        assert any(rule in str(item) for item in report.violations), report.violations


@each
@pytest.mark.parametrize(
    ("size", "what"), [(None, "does not exist"), (0, "has 0 bytes"), (9000, "has 9,000 bytes")]
)
def test_an_image_that_is_not_whole(sound, engine, size, what, tmp_path):
    folder = copied(sound, tmp_path)
    image = folder / "mem" / "external.bin"
    image.unlink()
    if size is not None:
        image.write_bytes(bytes(size))
    with pytest.raises(SimulationError, match=what) as caught:
        mase_hw.simulate(folder, samples=1, engine=engine)
    assert str(image) in str(caught.value)


def test_options_of_a_memory_that_is_not_there(sound, tmp_path):
    with pytest.raises(SimulationError, match="latency_cycle'; did you mean latency_cycles"):
        mase_hw.simulate(sound, samples=1, memory={"latency_cycle": 3})
    with pytest.raises(SimulationError, match="latency_cycles is 0; allowed: a number from 1"):
        mase_hw.simulate(sound, samples=1, memory={"latency_cycles": 0})
    project = mase_hw.emit_verilog(quantized(4, 4), output=tmp_path / "on_chip")
    with pytest.raises(SimulationError, match="no external memory"):
        mase_hw.simulate(project, samples=1, memory={"latency_cycles": 3})


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("outside", "memory: default is 'outside'; allowed: on-chip, external"),
        ({"linear_9": {"weight": "external"}}, "'linear_9' is no node .* known: linear_0"),
        ({"linear_0": {"bias": "external"}}, "linear_0: unknown key 'bias'; .*known: weight"),
        ({"linear_0": {"weight": "far"}}, "linear_0.weight is 'far'; allowed"),
        ({"latency": 3}, "unknown option 'latency'; .*latency_cycles"),
        ({"data_width": 48}, "data_width is 48; allowed: 32, 64"),
        ({"bytes_per_cycle": 3}, "bytes_per_cycle is 3; allowed: 0, 1, 2, 4, 8"),
        ({"data_width": 1024, "burst_beats": 64}, "burst_beats is 64; allowed: 1, 2, 4, 8, 16, 32"),
        ({"outstanding": 0}, "outstanding is 0; allowed: 1 to 256"),
    ],
)
def test_a_wrong_configuration_is_refused(memory, message):
    with pytest.raises(ConfigError, match=message):
        place_constants(quantized(4, 6, 3), memory)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(1, 40), st.sampled_from([32, 64, 128]), st.randoms())
def test_the_image_holds_every_word(width, count, bus, source):
    words = [source.getrandbits(width) for _ in range(count)]
    beats = -(-width * count // bus)
    region = Region("a", "weight", 4096, beats * bus // 8, width, count, 1, 1, beats, 1, 2)
    octets = Image(width, lambda: words).octets
    image = pack_image(ExternalMemory(MemoryPort(bus), (region,)), {("a", "weight"): octets})
    whole = int.from_bytes(image[4096:], "little")
    assert len(image) == 4096 + region.bytes
    assert [(whole >> (width * i)) & ((1 << width) - 1) for i in range(count)] == words
    assert whole >> (width * count) == 0


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 16, 6)
    ).eval()


@pytest.mark.full
def test_convolution_from_outside_and_linear_on_chip(tmp_path):
    """The weights of all positions are read once an inference, as the buffer holds two rounds."""
    torch.manual_seed(0)
    memory = {"conv2d_0": {"weight": "external"}, "latency_cycles": 10, "data_width": 32}
    project = mase_hw.emit_verilog(
        convolutions(), torch.randn(4, 2, 4, 4), output=tmp_path / "net", parallelism=2,
        memory=memory,
    )  # fmt: skip
    design = project.design
    assert design.external is not None
    (region,) = design.external.regions
    assert (region.repeats, region.rounds) == (16, 1)
    assert {item.name for item in design.memories} > {"linear_3_weight_source_0"}
    as_predicted(project, samples=30)


@pytest.mark.full
@pytest.mark.parametrize("parallelism", [1, 3, 8, 16])
@pytest.mark.parametrize("seed", range(4))
def test_any_widths_and_any_memory(parallelism, seed, tmp_path):
    draw = random.Random(100 * parallelism + seed)
    torch.manual_seed(seed)
    data_width = draw.choice([32, 64, 128, 256])
    memory = {
        "default": "external",
        "data_width": data_width,
        "latency_cycles": draw.choice([1, 7, 30, 90]),
        "bytes_per_cycle": draw.choice([0, data_width // 16]),
        "burst_beats": draw.choice([1, 4, 16]),
        "buffer_bytes": draw.choice([0, 16384]),
    }
    model, shape = draw.choice(
        [
            (convolutions(), (4, 2, 4, 4)),
            (nn.Sequential(nn.Linear(9, 17), nn.ReLU(), nn.Linear(17, 5)).eval(), (4, 9)),
            (nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 9)).eval(), (4, 3, 6)),
        ]
    )
    graph = quantize(trace(model, torch.randn(shape)), by_type(weight_width=draw.choice([3, 5, 8])))
    project = mase_hw.emit_verilog(
        graph, output=tmp_path / "net", parallelism=parallelism, memory=memory
    )
    report = exact(project, samples=150)
    predicted = pytest.approx(report.predicted_interval_cycles, rel=0.01)
    assert report.interval_cycles == predicted, memory
    alone = mase_hw.simulate(project, samples=1)
    assert alone.latency_cycles == pytest.approx(alone.predicted_latency_cycles, rel=0.1), memory
    exact(project, samples=30, stall=0.4, seed=seed)


@pytest.mark.full
def test_the_folder_simulates_itself(sound, tmp_path):
    folder = copied(sound, tmp_path)
    command = [sys.executable, "sim/run.py", "--stall", "0.2"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (folder / "mem" / "external.bin").write_bytes(b"short")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 2
    assert "of the external memory" in done.stderr


@pytest.mark.full
def test_the_top_lints_clean_and_synthesizes(sound):
    lint_top(sound.folder)
    nodes = mase_hw.synthesize(sound).nodes
    assert nodes["external_memory"].lut > 0


def test_the_description_names_every_region(sound):
    entry = json.loads((sound.folder / "design.json").read_text())["external_memory"]
    assert (sound.folder / entry["file"]).stat().st_size == entry["bytes"]
    assert [item["node"] for item in entry["regions"]] == ["linear_0", "linear_2", "linear_4"]
    assert all(item["offset"] % 4096 == 0 for item in entry["regions"])
