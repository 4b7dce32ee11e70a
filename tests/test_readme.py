"""What the README shows is what happens."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
SCRIPTS = Path(sysconfig.get_path("scripts"))
USES_CUBIC = """
import torch
import mase_hw


class Model(torch.nn.Module):
    def forward(self, x):
        return x * x * x


project = mase_hw.emit_verilog(Model(), torch.randn(8, 6), output="build/cubic", parallelism=3)
assert [node.operator for node in project.design.nodes] == ["cubic"]
values = torch.linspace(-1.2, 1.2, 60).reshape(10, 6)
report = mase_hw.simulate(project, values)
assert report.bit_exact, report.first_mismatch
error = (report.values["data_out_0"] - values**3).abs().max()
assert error < 0.2, error
"""


def block(language: str, word: str) -> str:
    """Return the block of code that holds `word`."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    (found,) = [text for text in blocks if word in text]
    return str(found)


def run(
    command: list[str | Path], folder: Path, paths: tuple[Path, ...] = (), status: int = 0
) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    environment["PATH"] = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == status, result.stdout
    return result.stdout


def test_the_commands_on_your_own_model(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(block("python", "# net.py"))
    (tmp_path / "net.toml").write_text(block("toml", "[parallelism]"))
    lines = block("sh", "mase-hw preflight").splitlines()
    assert len(lines) == 2
    outputs = [run(["sh", "-c", line], tmp_path) for line in lines]
    assert "every node has hardware" in outputs[0]
    assert re.search(r"bit-exact\W+yes", outputs[1])
    top = (tmp_path / "build" / "net" / "top.sv").read_text()
    for line in (
        "linear_0_DATA_OUT_0_PARALLELISM_DIM_0 = 8,",
        "linear_2_WEIGHT_PRECISION_0 = 6,",
        "linear_2_DATA_OUT_0_PRECISION_0 = 12,",
    ):
        assert line in top


def test_the_search_example(tmp_path: Path) -> None:
    (tmp_path / "search.toml").write_text(block("toml", "# search.toml"))
    command = [SCRIPTS / "mase-hw", "search", "digits-mlp", "--config", "search.toml"]
    run([*command, "--trials", "3", "--samples", "50", "-o", "found"], tmp_path)
    best = (tmp_path / "found" / "best.toml").read_text()
    assert "[quantize.linear_0.config]" in best


def test_the_training_example(tmp_path: Path) -> None:
    output = run([sys.executable, "-c", block("python", "Trainer(")], tmp_path)
    accuracy, top_two = map(float, output.split())
    assert 0.7 < accuracy < top_two
    assert (tmp_path / "build/history.png").exists()


def test_the_python_example(tmp_path: Path) -> None:
    output = run([sys.executable, "-c", block("python", "mase_hw.trace(")], tmp_path)
    assert output.splitlines()[-1] == "True 500 torch.Size([100, 5])"
    assert "linear_0" in output
    assert "fixed<8,4>" in output


def test_an_operator_from_another_distribution(tmp_path: Path) -> None:
    """The README's file and entry point, as a distribution on the path."""
    source, project = block("python", "# cubic.py"), block("toml", "entry-points")
    assert len(source.splitlines()) < 30
    (tmp_path / "cubic.py").write_text(source)
    metadata = tmp_path / "cubic-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cubic\nVersion: 1.0\n")
    groups = tomllib.loads(project)["project"]["entry-points"]
    text = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in groups.items()
    )
    (metadata / "entry_points.txt").write_text(text)
    run([sys.executable, "-c", USES_CUBIC], tmp_path, (tmp_path,))


def test_every_command_is_described() -> None:
    from mase_hw.cli import build_app

    names = {item.name for item in build_app().registered_commands}
    missing = {name for name in names if name and f"mase-hw {name}" not in README}
    assert missing <= {"search", "profile"}, missing


def test_the_tests_run_as_the_readme_says() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "python -m pytest -n 2\n" in script
    assert "python -m pytest -n 2\n```" in README
    for setting in ("OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=PASSIVE"):
        assert setting in script
        assert setting in README


@pytest.mark.parametrize("options", [[], ["--errors"]])
def test_the_table_of_operators(options: list[str], tmp_path: Path) -> None:
    output = run([SCRIPTS / "mase-hw", "operators", *options], tmp_path)
    for name in ("gelu", "tanhshrink", "leaky_relu"):
        assert name in output
    if options:
        assert re.search(r"gelu +│ fixed<8,4> +│ all 256 +│ 0\.\d+ +│ 0\.00% ", output)
    else:
        (letter,) = re.findall(r"│ linear +│ aten\.linear +│ +([A-Z]) ", output)
        assert re.search(rf"^{letter}: fixed, .*\bmxint\b", output, re.MULTILINE | re.DOTALL)
