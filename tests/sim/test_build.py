"""The builds: tools found or named, caches safe among processes, sources without warnings."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mase_hw._cache import CACHE_VARIABLE
from mase_hw.emit.design import DesignSummary
from mase_hw.errors import SimulationError, ToolError
from mase_hw.sim import build, runtime, simulate, tools, write_testbench
from mase_hw.sim.baseline import baseline_cycles_per_second
from mase_hw.sim.compiling import FAST_FLAGS, compile_source
from mase_hw.sim.inputs import random_codes
from tests.sim.project import SCALE2, TWO_CHAINS, make_reference, write_project

reference = make_reference()


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return write_project(tmp_path_factory.mktemp("build") / "project")


@pytest.fixture
def empty_path(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize(("version", "good"), [("5.036", True), ("5.034", False), ("4.228", False)])
def test_verilator_on_the_path(empty_path, monkeypatch, version, good):
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    command = empty_path / "verilator"
    command.write_text(
        '#!/bin/sh\n[ "$1" = --getenv ] && echo /opt/verilator && exit\n'
        f'echo "Verilator {version} 2025-01-01 rev x"\n'
    )
    command.chmod(0o755)
    if good:
        found = tools.find_verilator()
        assert (found.version, found.root) == (version, Path("/opt/verilator"))
        assert found.environment["VERILATOR_ROOT"] == "/opt/verilator"
    else:
        with pytest.raises(ToolError, match=rf"Verilator {version}; 5\.036 or newer is needed"):
            tools.find_verilator()


@pytest.mark.full
def test_one_process_builds_and_the_others_wait(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    script = (
        "import time, sys\nfrom pathlib import Path\nfrom mase_hw.sim._cache import build_once\n"
        "def make(folder):\n"
        "    with open(sys.argv[1], 'a') as log: log.write('made\\n')\n"
        "    time.sleep(0.5)\n"
        "    (folder / 'file').write_text('done')\n"
        "assert (build_once('kind', 'key', make) / 'file').read_text() == 'done'\n"
    )
    log = tmp_path / "log"
    command = [sys.executable, "-c", script, str(log)]
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda _: subprocess.run(command, check=False), range(3)))
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert log.read_text() == "made\n"
    assert sorted(path.name for path in (tmp_path / "kind").iterdir()) == ["key", "key.lock"]


@pytest.mark.full
def test_a_path_beyond_ascii_builds(tmp_path, monkeypatch):
    """Verilator writes such names as in C: octal, which JSON does not know."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "é漢" / "cache"))
    folder = write_project(tmp_path / "é漢\\303" / "project")
    found = build.build_model(folder, DesignSummary.load(folder)).folder
    assert "Vtop.cpp" in (found / "fast.txt").read_text()
    assert (found / "runtime.txt").read_text().startswith("verilated.cpp")


@pytest.mark.full
def test_a_module_that_refuses_its_parameters_is_no_warning(tmp_path):
    project = write_project(tmp_path / "project")
    path = next(project.rglob("scale.sv"))
    check = '  if (1) begin : gen_check\n    $error("never so");\n  end\nendmodule'
    path.write_text(path.read_text().replace("endmodule", check))
    with pytest.raises(SimulationError, match="never so"):
        build.build_model(project, DesignSummary.load(project))


@pytest.mark.full
def test_harness_compiles_without_warnings(project, monkeypatch):
    warnings = (*build.HARNESS_WARNINGS, "-Wpedantic", "-Werror")
    monkeypatch.setattr(build, "HARNESS_WARNINGS", warnings)
    summary = DesignSummary.load(project)
    assert build.build_model(project, summary).executable("native").is_file()


@pytest.mark.full
def test_headers_are_compiled_ahead_from_the_fifth_build_on(project, tmp_path, monkeypatch):
    """Until then that would take longer than it saves."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    given: list[list[str]] = []

    def record(compiler, flags, source, target) -> None:
        given.append([*flags, source.name])
        compile_source(compiler, flags, source, target)

    monkeypatch.setattr(build, "compile_source", record)
    for engine in ("baseline", "native"):
        build.build_model(project, DesignSummary.load(project)).executable(engine)
    assert not any("-include" in flags for flags in given)
    for number in range(runtime.BUILDS_BEFORE):
        (tmp_path / "executables" / str(number)).mkdir()
    given.clear()
    other = write_project(tmp_path / "other", TWO_CHAINS)
    report = simulate(other, samples=5, reference=make_reference(TWO_CHAINS))
    assert report.bit_exact
    header = next(tmp_path.glob("headers/*/headers.h.gch"))
    assert all(flags[flags.index("-include") + 1] == str(header.with_suffix("")) for flags in given)
    assert [flags[-1] for flags in given if "-Wall" in flags] == ["native.cpp"]


def test_headers_that_do_not_compile_are_read_as_they_are(project, tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(runtime, "BUILDS_BEFORE", 0)
    monkeypatch.setattr(runtime, "HEADERS", ("no_such_header.h",))
    tool, compiler = tools.find_verilator(), tools.find_compiler()
    assert runtime.headers_ahead(tool, compiler, FAST_FLAGS) == []


def test_build_is_reused_when_only_memory_changes(project, tmp_path):
    summary = DesignSummary.load(project)
    key = build.build_model(project, summary).key
    other = write_project(tmp_path / "other")
    (other / "mem" / "scale1_weight.mem").write_text("00000000\n00000000\n")
    assert build.build_model(other, summary).key == key


def test_baseline_loop_is_checked(project, tmp_path):
    assert baseline_cycles_per_second(project, 200, reference=reference) > 0
    other = write_project(tmp_path / "other")
    (other / "mem" / "scale1_weight.mem").write_text("00000000\n00000000\n")
    with pytest.raises(SimulationError, match="the plain loop gave wrong outputs"):
        baseline_cycles_per_second(other, 200, reference=reference)
    two = write_project(tmp_path / "two", TWO_CHAINS)
    with pytest.raises(SimulationError, match="the plain loop drives"):
        baseline_cycles_per_second(two, 1, reference=make_reference(TWO_CHAINS))


def test_emitted_testbench_refuses_a_folder_that_make_cannot_take(tmp_path):
    folder = write_project(tmp_path / "a#b")
    summary = DesignSummary.load(folder)
    codes = random_codes(summary.inputs, 1, 0)
    expected = reference(codes, [SCALE2.name])[SCALE2.name]
    write_testbench(folder, summary, {"data_in_0": codes[0]}, {"data_out_0": expected})
    command = [sys.executable, str(folder / "sim" / "run.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"make cannot build in a folder with '#' in its path: {folder}" in ended.stderr
