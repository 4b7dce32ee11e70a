"""Synthesis of a small project made of library modules: a weight ROM, a multiplier, a buffer."""

import json
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import mase_hw
from mase_hw import _resources
from mase_hw.cli.synth import other_device
from mase_hw.errors import SynthesisError
from mase_hw.hardware._primitives import Resources
from mase_hw.hardware.synth import Entry, SynthesisReport, _explain, _report, synthesize
from mase_hw.hardware.targets import targets

WORDS = 1024
MULTIPLIER = """
module product (
    input  logic               clk,
    input  logic [1:0][ 7:0]   a,
    input  logic [1:0][ 7:0]   b,
    output logic [1:0][15:0]   y
);
  for (genvar lane = 0; lane < 2; lane++) begin : gen_lane
    logic signed [15:0] y_q;
    always_ff @(posedge clk) y_q <= signed'(a[lane]) * signed'(b[lane]);
    assign y[lane] = y_q;
  end
endmodule
"""
TOP = """
module top #(
    parameter string MEM_DIR = "mem/"
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [1:0][ 7:0] data_in_0,
    input  logic             data_in_0_valid,
    output logic             data_in_0_ready,
    output logic [1:0][15:0] data_out_0,
    output logic             data_out_0_valid,
    input  logic             data_out_0_ready
);
  logic [1:0][7:0] replayed;
  logic [1:0][7:0] weight;
  logic [1:0][15:0] product;
  logic parity_q;
  logic unused_valid;
  mase_stream_replay #(.WIDTH(16), .BLOCK(8), .REPEATS(3)) replay_inst (
      .clk, .rst, .data_in(data_in_0), .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready), .data_out(replayed),
      .data_out_valid(data_out_0_valid), .data_out_ready(data_out_0_ready));
  mase_rom_source #(.WIDTH(16), .DEPTH(1024), .INIT_FILE({MEM_DIR, "w.mem"})) fc1_weight_source_0 (
      .clk, .rst, .data_out(weight), .data_out_valid(unused_valid), .data_out_ready(1'b1));
  product fc1_inst (.clk, .a(replayed), .b(weight), .y(product));
  always_ff @(posedge clk) parity_q <= ^product ^ parity_q;
  assign data_out_0 = {product[1], product[0] ^ {16{parity_q}}};
endmodule
"""


def write_project(folder: Path, words: Sequence[int]) -> Path:
    for part in ("rtl", "mem"):
        (folder / part).mkdir(parents=True)
    library = sorted(
        _resources.rtl_folder().rglob("*.sv"), key=lambda path: path.stem != "mase_pkg"
    )
    for path in library:
        shutil.copy(path, folder / "rtl")
    files = [*(f"rtl/{path.name}" for path in library), "rtl/product.sv", "top.sv"]
    (folder / "rtl/product.sv").write_text(MULTIPLIER)
    (folder / "top.sv").write_text(TOP)
    (folder / "files.f").write_text("".join(f"{file}\n" for file in files))
    (folder / "mem/w.mem").write_text("".join(f"{word:04x}\n" for word in words))
    owners = {"replay_inst": "replay", "fc1_weight_source_0": "fc1", "fc1_inst": "fc1"}
    instances = [{"name": name, "node": node, "module": "-"} for name, node in owners.items()]
    (folder / "design.json").write_text(json.dumps({"version": 1, "instances": instances}))
    return folder


def random_words() -> list[int]:
    source = random.Random(7)
    return [source.getrandbits(16) for _ in range(WORDS)]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return write_project(tmp_path_factory.mktemp("synth") / "with space", random_words())


@pytest.fixture(scope="module")
def xcup(project):
    return synthesize(project, "xcup")


@pytest.fixture(scope="module")
def ecp5(project):
    return synthesize(project, "ecp5")


@pytest.mark.first(1)
@pytest.mark.parametrize("target", ["ecp5", "xcup"])
def test_the_total_is_the_nodes_and_the_glue(target, request):
    report: SynthesisReport = request.getfixturevalue(target)
    assert report.nodes["fc1"].dsp == 2
    assert report.nodes["fc1"].bram == {"xcup": 0.5, "ecp5": 1}[target]
    assert report.nodes["replay"].dsp == 0 < report.nodes["replay"].ff
    assert not report.other
    # The parity register and its tables lie in the top itself.
    assert report.glue.ff == 1
    assert report.glue.lut > 16
    parts = [*report.nodes.values(), report.glue]
    for kind in ("lut", "ff", "carry", "dsp", "bram"):
        assert getattr(report.total, kind) == sum(getattr(part, kind) for part in parts)


@pytest.mark.full
def test_the_contents_of_a_memory_reach_the_netlist(tmp_path, ecp5):
    report = synthesize(write_project(tmp_path / "zero", [0] * WORDS), "ecp5")
    assert report.nodes["fc1"].bram == 0
    assert report.nodes["fc1"] != ecp5.nodes["fc1"]


@pytest.mark.full
def test_without_dsp_tables_multiply(project, ecp5):
    passes: list[str] = []
    report = synthesize(project, "ecp5", dsp=False, progress=passes.append)
    assert report.total.dsp == 0
    assert report.nodes["fc1"].lut > ecp5.nodes["fc1"].lut + 100
    assert report.nodes["replay"] == ecp5.nodes["replay"]
    assert "SLANG" in passes
    assert "ABC9_EXE" in passes


def test_json_holds_totals_and_nodes(ecp5):
    entry = json.loads(json.dumps(ecp5.to_dict()))
    kinds = {"lut", "ff", "carry", "dsp", "bram"}
    assert kinds <= entry.keys()
    assert set(entry["nodes"]) == {"fc1", "replay"}
    assert all(set(node) == kinds for node in entry["nodes"].values())
    assert entry["bram"] == 1


def test_table_has_a_row_per_node_and_a_total(ecp5):
    console = Console(width=100)
    with console.capture() as capture:
        console.print(ecp5.table())
    text = capture.get()
    for word in ("fc1", "replay", "(glue)", "total", str(ecp5.total.lut)):
        assert word in text


def test_distributed_memories_count_the_tables_they_occupy():
    modules = {
        "\\rom$top.a_inst": {
            "num_cells_by_type": {"RAM32M": 2, "SRL16E": 3, "LUT6": 5, "MUXF7": 4, "INV": 1}
        },
        "\\x$top.b_inst": {"num_cells_by_type": {"RAM128X1D": 1, "CARRY4": 2, "RAMB18E2": 3}},
        "\\top": {"num_cells_by_type": {"rom$top.a_inst": 1, "x$top.b_inst": 1, "PLLE4": 1}},
    }
    report = _report(modules, {"a_inst": "a", "b_inst": "b"}, "xcup", Entry())
    assert report.nodes["a"] == Resources(lut=2 * 4 + 3 + 5 + 1)
    assert report.nodes["b"] == Resources(lut=4, carry=2, bram=1.5)
    assert report.other == {"PLLE4": 1}
    assert targets()["ecp5"].primitives["CCU2C"] == Resources(lut=2, carry=1)


def test_a_missing_memory_image_is_named(tmp_path):
    folder = write_project(tmp_path / "broken", [0])
    (folder / "mem/w.mem").unlink()
    with pytest.raises(SynthesisError, match=r"mase_rom_source.sv:\d+: .*'mem/w.mem'.*emit"):
        synthesize(folder, "ecp5")


def test_the_first_error_of_the_sources_is_reported(tmp_path):
    folder = write_project(tmp_path / "broken", [0])
    (folder / "rtl/product.sv").write_text("module product (); assign y = ; endmodule\n")
    with pytest.raises(SynthesisError, match=r"product.sv:1: ERROR: "):
        synthesize(folder, "ecp5")


def test_a_crash_of_yosys_is_an_error_of_ours(project):
    assert "ended by signal 11" in _explain(["2. Executing OPT pass."], -11, project)


def test_a_stopped_run_leaves_no_process(project, monkeypatch):
    started = []

    class Recorded(subprocess.Popen[str]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    def stop(name: str) -> None:
        raise KeyboardInterrupt(name)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    with pytest.raises(KeyboardInterrupt, match="SLANG"):
        synthesize(project, "ecp5", progress=stop)
    assert [process.returncode for process in started] == [-signal.SIGKILL]


def test_an_instance_that_is_no_identifier_is_refused(tmp_path):
    folder = write_project(tmp_path / "odd", [0])
    instances = [{"name": "a; shell true", "node": "a"}]
    (folder / "design.json").write_text(json.dumps({"instances": instances}))
    with pytest.raises(SynthesisError, match="'a; shell true'"):
        synthesize(folder, "ecp5")


def test_blocks_of_the_target_that_a_design_leaves_unused_are_said(tmp_path):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    folders = {}
    for device in ("generic", "xcup"):
        project = mase_hw.emit_verilog(
            layers, torch.randn(8, 8), output=tmp_path / device, parallelism=4, device=device
        )
        folders[device] = project.folder
    told = other_device(folders["generic"], "xcup")
    pairs = re.findall(r"about ([\d,]+) LUT for ([\d,]+), (\d+) DSP for (\d+)", told)
    lut, before, dsp, blocks = (int(item.replace(",", "")) for item in pairs[0])
    assert lut < before and (dsp, blocks) == (16, 32)
    assert other_device(folders["generic"], "ecp5") == other_device(folders["xcup"], "xcup") == ""
