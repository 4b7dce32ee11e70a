"""The wheel and the sdist work away from the checkout."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FACTORY = """
import torch


def factory():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()).eval()
    return model, (torch.randn(2, 4),)
"""


def run(command: list[str], folder: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(
        command,
        cwd=folder,
        env=clean,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def relative_files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """Build the sdist from a copy of the sources, and the wheel from the sdist."""
    source = tmp_path_factory.mktemp("source") / "tree"
    unwanted = (".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*unwanted))
    output = tmp_path_factory.mktemp("dist")
    builder = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output)]
    run([*builder, str(source)], source)
    return output


@pytest.fixture(scope="module")
def installed(distributions, tmp_path_factory):
    """Install the wheel into an environment that sees the dependencies of this one."""
    folder = tmp_path_factory.mktemp("installed")
    environment = folder / "venv"
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)], folder)
    python = environment / "bin/python"
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run([str(python), "-c", purelib], folder).strip())
    dependencies = [
        path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}
    ]
    (packages / "dependencies.pth").write_text("\n".join(dependencies))
    (wheel,) = distributions.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    run([*pip, "--no-deps", "--no-index", "--ignore-installed", str(wheel)], folder)
    return environment


@pytest.mark.full
def test_the_installed_commands_answer(installed, tmp_path):
    for command in ("mase-hw", "emit-verilog"):
        assert "Usage" in run([str(installed / "bin" / command), "--help"], tmp_path)


@pytest.mark.full
def test_the_installed_package_lies_in_its_environment(installed, tmp_path):
    ask = "import mase_hw; print(mase_hw.__file__)"
    location = run([str(installed / "bin/python"), "-c", ask], tmp_path)
    assert Path(location.strip()).is_relative_to(installed)


@pytest.mark.full
def test_the_installed_commands_emit_simulate_and_synthesize(installed, tmp_path):
    command = str(installed / "bin/mase-hw")
    (tmp_path / "net.py").write_text(FACTORY)
    run([command, "emit-verilog", "net.py:factory", "-o", "project"], tmp_path)
    project = tmp_path / "project"
    files = (project / "files.f").read_text().split()
    assert "top.sv" in files
    assert all((project / file).is_file() for file in files)
    for engine in ("native", "cocotb"):
        options = ["--engine", engine, "--samples", "8", "--json"]
        simulated = json.loads(run([command, "simulate", "project", *options], tmp_path))
        assert simulated["bit_exact"] is True
        assert simulated["inferences"] == 8
    resources = json.loads(run([command, "synth", "project", "--json"], tmp_path))
    assert resources["dsp"] == 1
    assert len(resources["nodes"]) == 2


@pytest.mark.full
def test_the_wheel_holds_the_sources_of_the_package_alone(installed):
    (package,) = installed.glob("lib/python*/site-packages/mase_hw")
    expected = relative_files(ROOT / "mase_hw")
    for folder in ("sim", "kernels", "rtl", "templates"):
        expected |= {f"{folder}/{name}" for name in relative_files(ROOT / folder)}
    assert relative_files(package) == expected
    assert not (package.parent / "tests").exists()


@pytest.mark.full
def test_the_sdist_holds_the_sources_and_the_license(distributions):
    (archive,) = distributions.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for folder in ("mase_hw", "sim", "kernels", "rtl", "templates"):
        assert {f"{folder}/{name}" for name in relative_files(ROOT / folder)} <= names
    assert {"LICENSE", "README.md", "pyproject.toml"} <= names
