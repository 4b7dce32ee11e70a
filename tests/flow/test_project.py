"""The emitted folder: the same bytes, clean, complete, and runnable without this package."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.project import Project
from mase_hw.errors import EmissionError
from mase_hw.sim.tools import find_verilator
from tests.flow.perceptrons import JET_TAGGER, by_type, quantized, seeded

GOLDEN = Path(__file__).with_name("golden")
FILES = {
    "design.json", "files.f", "manifest.json", "model.mase", "top.sv", "sim/memory.py",
    "sim/run.py", "sim/stream.py", "sim/test_top.py", "sim/vectors.npz",
}  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("project") / "jet"
    return mase_hw.emit_verilog(*seeded(*JET_TAGGER), output=folder, parallelism=4)


def test_the_same_input_gives_the_same_bytes(project: Project, tmp_path: Path) -> None:
    """Also from another process, where sets and dictionaries hash otherwise."""
    script = (
        "import sys, mase_hw\n"
        "from tests.flow.perceptrons import JET_TAGGER, seeded\n"
        "mase_hw.emit_verilog(*seeded(*JET_TAGGER), output=sys.argv[1], parallelism=4)\n"
    )
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(root)}
    again = tmp_path / "jet"
    subprocess.run([sys.executable, "-c", script, str(again)], env=environment, check=True)
    found, expected = contents(again), contents(project.folder)
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []


def test_the_folder_holds_what_it_needs_and_nothing_else(project: Project) -> None:
    names = set(contents(project.folder))
    listed = set((project.folder / "files.f").read_text().split())
    assert listed <= names
    assert {name for name in names if name.startswith("rtl/")} == listed - {"top.sv"}
    images = {memory.file for memory in project.design.memories}
    assert names == FILES | listed | images
    assert not any(
        str(project.folder).encode() in text for text in contents(project.folder).values()
    )


def test_only_modules_that_are_used_are_copied(project: Project) -> None:
    text = "".join(path.read_text() for path in project.folder.rglob("*.sv"))
    for path in (project.folder / "rtl").iterdir():
        assert text.count(path.stem) > 1, path.stem


class TwoOutputs(nn.Module):
    """One input goes two ways, the other to an adder; the first output also goes on inside."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 10, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.a(x)
        return h, torch.relu(h + y) * h


class View(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2, 3)


LINTED: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "perceptron": (seeded(*JET_TAGGER)[0], (torch.randn(2, 16),)),
    "lone activation": (nn.ReLU(), (torch.randn(2, 6),)),
    "table": (nn.GELU(), (torch.randn(2, 6),)),
    "wires": (View(), (torch.randn(2, 6),)),
    "branches": (TwoOutputs(), (torch.randn(2, 6), torch.randn(2, 10))),
    "rank 3": (nn.Linear(6, 10, bias=False), (torch.randn(2, 3, 6),)),
}


@pytest.mark.parametrize("name", LINTED)
def test_the_top_lints_clean(name: str, tmp_path: Path) -> None:
    verilator = find_verilator()
    project = mase_hw.emit_verilog(*LINTED[name], output=tmp_path / "linted", parallelism=4)
    words = ["--lint-only", "-Wall", "--top-module", "top", "-f", "files.f"]
    result = subprocess.run(
        [verilator.command, *words],
        cwd=project.folder,
        env=verilator.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "%Warning" not in result.stdout


def test_a_small_project_is_the_golden_one(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3, bias=False)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            count = torch.arange(parameter.numel(), dtype=torch.float32)
            parameter.copy_(((count * 7 % 31 - 15) / 16).reshape(parameter.shape))
    fields = {"data_in_width": 8, "data_in_frac_width": 3}
    config = by_type(**fields, weight_width=6, bias_width=6)
    example = torch.linspace(-1, 1, 4).reshape(1, 4)
    emitted = mase_hw.emit_verilog(
        model, example, output=tmp_path / "golden", config=config, parallelism=2, name="golden"
    )
    for name in ("top.sv", "design.json"):
        found = (emitted.folder / name).read_text()
        if request.config.getoption("--record"):
            (GOLDEN / name).write_text(found)
        assert found == (GOLDEN / name).read_text(), f"{name} differs; --record accepts it"


def test_the_ports_and_instances_of_the_top_have_the_known_names(project: Project) -> None:
    top = (project.folder / "top.sv").read_text()
    for line in (
        'parameter string MEM_DIR = "mem"',
        "input logic clk,",
        "input logic rst,",
        "input  logic [3:0][7:0] data_in_0,",
        "input  logic data_in_0_valid,",
        "output logic data_in_0_ready,",
        "output logic [3:0][7:0] data_out_0,",
        ") linear_0_inst (",
        ") linear_0_weight_source_0 (",
        ") linear_0_bias_source_0 (",
    ):
        assert line in top, line


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A small project in a folder of its own."""
    return mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 6), output=tmp_path / "net").folder


def test_files_of_others_stay_when_a_project_is_replaced(written: Path) -> None:
    theirs = {
        "thesis.tex": "years",
        "notes/a.md": "b",
        "rtl/my_module.sv": "c",
        "sim/waves.gtkw": "",
    }
    for name, text in theirs.items():
        (written / name).parent.mkdir(exist_ok=True)
        (written / name).write_text(text)
    (written / "link").symlink_to("thesis.tex")
    for name in ("sim/build/top.o", "sim/__pycache__/run.pyc"):
        (written / name).parent.mkdir()
        (written / name).write_text("what a run leaves")
    (written / "files.f").unlink()
    mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 4), output=written)
    assert {name: (written / name).read_text() for name in theirs} == theirs
    assert (written / "link").readlink() == Path("thesis.tex")
    assert not (written / "sim" / "build").exists()
    assert (written / "files.f").exists()
    assert "[0:0][7:0]" in (written / "top.sv").read_text()
    mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 4), output=written)


def test_files_that_were_edited_are_not_overwritten(written: Path) -> None:
    (written / "top.sv").write_text("// mine\n" + (written / "top.sv").read_text())
    before = contents(written)
    with pytest.raises(EmissionError, match=r"top\.sv changed since emission, so .* left alone"):
        mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 6), output=written)
    (written / "sim" / "run.py").write_text("")
    with pytest.raises(EmissionError, match=r"run\.py and 1 others changed"):
        mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 6), output=written)
    assert contents(written) == {**before, "sim/run.py": b""}


def test_a_file_of_others_with_the_name_of_a_new_one_stays(written: Path) -> None:
    (written / "mem").mkdir(exist_ok=True)
    (written / "mem" / "linear_weight_source_0.mem").write_text("mine")
    before = contents(written)
    with pytest.raises(EmissionError, match="has a file of that name; move yours away"):
        mase_hw.emit_verilog(nn.Linear(3, 2), torch.randn(2, 3), output=written)
    assert contents(written) == before


@pytest.mark.parametrize("damage", ["missing", "not JSON", "[]", '{"version": 0, "files": {}}'])
def test_a_folder_without_our_manifest_is_left_alone(written: Path, damage: str) -> None:
    (written / "manifest.json").unlink()
    if damage != "missing":
        (written / "manifest.json").write_text(damage)
    before = contents(written)
    with pytest.raises(EmissionError, match="is not a mase-hw project of this release"):
        mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 6), output=written)
    assert contents(written) == before


def run_testbench(folder: Path, blocked: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the emitted testbench where `import mase_hw` fails."""
    (blocked / "mase_hw").mkdir(parents=True, exist_ok=True)
    (blocked / "mase_hw" / "__init__.py").write_text("raise ImportError('blocked')\n")
    quick = "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0"
    environment = {**os.environ, "PYTHONPATH": str(blocked), "MAKEFLAGS": quick}
    probe = subprocess.run(
        [sys.executable, "-P", "-c", "import mase_hw"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ImportError: blocked" in probe.stderr
    return subprocess.run(
        [sys.executable, str(folder / "sim" / "run.py"), *arguments],
        cwd=blocked,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_testbench_runs_without_this_package_and_finds_broken_rtl(tmp_path: Path) -> None:
    emitted = mase_hw.emit_verilog(
        quantized(6, 8, 5), output=tmp_path / "elsewhere" / "net", parallelism=2
    )
    folder = tmp_path / "moved"
    shutil.move(emitted.folder, folder)
    good = run_testbench(folder, tmp_path / "blocked", "--stall", "0.3", "--seed", "5")
    assert good.returncode == 0, good.stdout
    assert "PASS=1 FAIL=0" in good.stdout
    source = folder / "rtl" / "mase_fixed_round.sv"
    text = source.read_text()
    broken = text.replace("half & (sticky | truncated[0])", "half | sticky")
    assert broken != text
    source.write_text(broken)
    bad = run_testbench(folder, tmp_path / "blocked")
    assert bad.returncode == 1, bad.stdout
    assert "FAIL=1" in bad.stdout
    assert re.search(r"data_out_0: beat \d of inference \d, lane \d: expected beat 0x", bad.stdout)


def test_design_json_says_what_the_design_is(project: Project) -> None:
    entry = json.loads((project.folder / "design.json").read_text())
    assert (entry["version"], entry["name"], entry["top"]) == (2, "sequential", "top")
    (entering,) = entry["inputs"]
    assert (entering["shape"], entering["parallelism"], entering["beats"]) == ([1, 16], [1, 4], 4)
    assert entering["format"]["name"] == "fixed"
    (leaving,) = entry["outputs"]
    assert (leaving["shape"], leaving["beats"]) == ([1, 5], 2)
    assert entry["predicted"]["interval_cycles"] == 128
    assert [node["multipliers"] for node in entry["nodes"]] == [16, 0, 16, 0, 16, 0, 16]
    weight = next(m for m in entry["memories"] if m["file"] == "mem/linear_0_weight_source_0.mem")
    assert (weight["width_bits"], weight["depth"]) == (8 * 16, 4 * 16)
    constant = next(item for item in entry["constants"] if item["name"] == "linear_0_weight")
    assert (constant["operand"], constant["words"], constant["hold"]) == ("weight", 4 * 16, 1)
    assert (constant["format"]["width"], constant["parallelism"]) == (8, [4, 4])
    assert constant["file"] == weight["file"]


def test_design_json_says_how_instances_are_connected(project: Project) -> None:
    """Every stream has one driver, and each but the outputs of the top one consumer."""
    entry = json.loads((project.folder / "design.json").read_text())
    modules = {item["name"]: item for item in entry["instances"]}
    assert modules["linear_0_weight_source_0"]["streams"] == {"data_out": "linear_0_weight"}
    assert modules["relu_1_inst"]["streams"] == {
        "data_in_0": "linear_0_data_out_0",
        "data_out_0": "relu_1_data_out_0",
    }
    (output,) = entry["connections"]
    assert output == {"stream": "data_out_0", "is": "linear_6_data_out_0", "copy": False}
