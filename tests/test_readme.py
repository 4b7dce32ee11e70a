"""What the pages show is what happens."""

import json
import re
import shutil
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent

import pytest
import torch

from mase_hw.emit.flow import canonicalize
from mase_hw.graph import trace
from mase_hw.models import models
from mase_hw.pipelines.compression import CompressionPipeline
from mase_hw.search.space import Space
from mase_hw.search.task import TABLES
from tests._readme import ROOT, SCRIPTS, Block, block, blocks, pages, run, write_files
from tests._tiers import Shard
from tests.bench import benchmarks
from tests.flow.perceptrons import command

README = (ROOT / "README.md").read_text()
# Commands that are not run, and what does it in their place.
LEFT_OUT = {
    "python3 -m venv": "`.ci/run` makes one",
    "pip install": "`.ci/run` installs in a fresh environment",
    "pre-commit install": "it changes the checkout; tests/test_quality.py runs what the hooks run",
    "python -m tests": "it measures for minutes to hours; its groups are checked below",
    "python -m pytest": "they are these tests; what they select is checked below",
    "mnist-lenet": "it fetches data and trains for minutes; `python -m tests.bench branches`",
    "mase-hw prove --": "all cells take 12 to 17 minutes; `python -m tests.bench proofs`",
}
# Commands that take long, of which the full tier runs all.
HEAVY = re.compile(
    r"mase-hw (simulate|fit|report|synth|search|compress|sweep|prove|experiment \w)|digits-|python "
)
HEAVY_CALLS = ("simulate(", "compare(", "route(", "Trainer(", "SimulatedLine(")
MODEL = "README.md#your-own-model"
COMMAND = re.compile(r"(?:^|`)((?:pip|pre-commit|mase-hw|python3? -m|bash) [^`\n]*)", re.M)
USES_CUBIC = """
import torch
import mase_hw


class Model(torch.nn.Module):
    def forward(self, x):
        return x * x * x


inputs = torch.linspace(-1.5, 1.5, 48).reshape(8, 6)
project = mase_hw.emit_verilog(Model(), inputs, output="build/cubic", parallelism=3)
assert [node.operator for node in project.design.nodes] == ["cubic"]
values = torch.linspace(-1.2, 1.2, 60).reshape(10, 6)
report = mase_hw.simulate(project, values)
assert report.bit_exact, report.first_mismatch
error = (report.values["data_out_0"] - values**3).abs().max()
assert error < 0.2, error
"""
USES_FMAX = """
import torch
import mase_hw


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.fmax(x, y)


inputs = [torch.rand(8, 7) * 4 - 2, torch.rand(8, 7) * 4 - 2]
project = mase_hw.emit_verilog(Model(), inputs, output="build/fmax", parallelism=3)
(node,) = project.design.nodes
assert node.module == "mase_fmax"
for stall in (0.0, 0.4):
    report = mase_hw.simulate(project, stall=stall)
    assert report.bit_exact, report.first_mismatch
    values = [torch.rand(20, 7) * 3 - 1.5, torch.rand(20, 7) * 3 - 1.5]
    found = mase_hw.simulate(project, values).values["data_out_0"]
    assert (found - torch.fmax(*values)).abs().max() < 0.1
report = mase_hw.simulate(project)
assert report.interval_cycles == report.predicted_interval_cycles
assert report.latency_cycles == report.predicted_latency_cycles
"""
USES_SYMMETRIC = """
import torch
from torch import nn

import mase_hw

torch.manual_seed(0)
entry = {"name": "fixed", "data_in_width": 8, "weight_name": "symmetric_fixed", "bias_width": 8}
config = {"by": "type", "linear": {"config": {**entry, "weight_width": 3}}}
graph = mase_hw.trace(nn.Sequential(nn.Linear(8, 4)), torch.randn(32, 8))
graph = mase_hw.quantize(graph, config)
call = graph.call(graph.node("linear_0"))
codes = call.constant_codes("weight")
assert -3 <= codes.min() < codes.max() <= 3, codes
graph(torch.randn(2, 8)).sum().backward()
project = mase_hw.emit_verilog(graph, output="build/symmetric", parallelism=2)
report = mase_hw.simulate(project, samples=50, stall=0.3)
assert report.bit_exact and report.elements == 200, report.first_mismatch
"""


def left_out(line: str) -> bool:
    return any(words in line for words in LEFT_OUT)


def steps(page: str, *, light: bool) -> list[Block]:
    """Return what a page runs, in order: its scripts, and its commands line by line."""
    found = []
    for item in blocks(page):
        if item.language == "python" and item.file is None:
            long = item.continued or any(call in item.text for call in HEAVY_CALLS)
            found += [] if light and long else [item]
        elif item.language == "sh":
            for line in item.text.splitlines():
                if left_out(line) or (light and HEAVY.search(line)):
                    continue
                found.append(Block("sh", line.replace(" --simulate", "") if light else line))
    return found


def page_names() -> list[str]:
    paths = [page.relative_to(ROOT) for page in pages()]
    return [str(path.parent if path.name == "README.md" else path) for path in paths]


def pages_with_steps(*, light: bool) -> list[str]:
    return [name for name in page_names() if steps(name, light=light)]


def run_page(page: str, folder: Path, *, light: bool) -> str:
    """Run what a page runs, in a folder with the files that it shows or names; return the output.

    The one file that pages share is the first page's model, and those that use it link to it.
    """
    text = (ROOT / page / "README.md").read_text() if (ROOT / page).is_dir() else ""
    if MODEL in text:
        (folder / "net.py").write_text(block(".", "python", "# net.py"))
    write_files(page, folder)
    printed = ""
    for step in steps(page, light=light):
        if step.continued is not None:
            (path,) = folder.rglob(step.continued)
            with path.open("a") as file:
                file.write(f"\n\n{step.text}")
        elif step.language == "python":
            printed += run([sys.executable, "-c", step.text], folder)
        else:
            printed += run(["sh", "-c", step.text], folder)
    return printed


@pytest.mark.first(".")
@pytest.mark.parametrize("page", pages_with_steps(light=True))
def test_the_light_commands_of_a_page_run(page, tmp_path):
    run_page(page, tmp_path, light=True)


@pytest.mark.full
@pytest.mark.parametrize("page", pages_with_steps(light=False))
def test_all_commands_of_a_page_run(page, tmp_path):
    printed = run_page(page, tmp_path, light=False)
    verdicts = re.findall(r"bit-exact\W+(yes|no)\b", printed)
    lines = [step.text for step in steps(page, light=False) if step.language == "sh"]
    simulations = [line for line in lines if "--simulate" in line or "mase-hw simulate" in line]
    assert verdicts == ["yes"] * len(simulations)


def test_every_page_with_code_runs_it():
    """A block that is no file runs, apart from the commands that are left out for a reason."""
    code = {
        name
        for name in page_names()
        for item in blocks(name)
        if (item.language == "python" and item.file is None)
        or (item.language == "sh" and not all(map(left_out, item.text.splitlines())))
    }
    assert set(pages_with_steps(light=False)) == code
    assert len(code) > 15


def test_the_commands_that_are_left_out_exist():
    """In blocks and in tables: groups of figures are registered, files and modules are there."""
    lines = [
        line for page in pages() for line in COMMAND.findall(page.read_text()) if left_out(line)
    ]
    assert {words for words in LEFT_OUT if not any(words in line for line in lines)} == set()
    for line in lines:
        for name in re.findall(r"python -m tests\.bench ([a-z]\w+)", line):
            assert name in benchmarks(), line
        for name in re.findall(r"python -m (tests[\w.]*)", line):
            assert find_spec(name) is not None, line
        for path in re.findall(r"(tests/[\w/.]+)", line):
            assert (ROOT / path).exists(), line
        for shard in re.findall(r"--shard (\S+)", line):
            assert f"shards={Shard.parse(shard).count}\n" in (ROOT / ".ci" / "shard").read_text()


def test_the_files_of_compressions_are_read():
    for word, count in (("# compress.toml", 4), ("# sweep.toml", 2)):
        tables = tomllib.loads(block("mase_hw/pipelines", "toml", word))
        tables.pop("sweep", None)
        assert len(CompressionPipeline.from_config(tables).steps) == count


def test_the_files_of_searches_are_read():
    mg = canonicalize(trace(models()["digits-mlp"].build(), torch.randn(4, 64)))
    for word, count in (("# search.toml", 7), ("# architecture.toml", 2)):
        tables = tomllib.loads(block("mase_hw/search", "toml", word))
        assert set(tables) <= set(TABLES)
        assert len(Space.parse(mg, tables["space"]).dimensions) == count


@pytest.mark.full
def test_the_commands_on_your_own_model(tmp_path):
    (tmp_path / "net.py").write_text(block(".", "python", "# net.py"))
    (tmp_path / "net.toml").write_text(block(".", "toml", "[parallelism]"))
    lines = block(".", "sh", "mase-hw preflight").splitlines()
    assert len(lines) == 3
    outputs = [run(["sh", "-c", line], tmp_path) for line in lines]
    assert "every node has hardware" in outputs[0]
    assert "--weights build/formats/model.mase --simulate" in outputs[1]
    assert re.search(r"bit-exact\W+yes", outputs[2])
    design = json.loads((tmp_path / "build" / "net" / "design.json").read_text())
    streams = {item["name"]: item for item in design["streams"] + design["constants"]}
    assert streams["linear_0_data_out_0"]["parallelism"] == [1, 8]
    assert streams["linear_2_weight"]["format"]["width"] == 6
    assert streams["linear_2_data_out_0"]["format"]["width"] == 12


@pytest.mark.full
def test_the_search_of_shared_choices(tmp_path):
    (tmp_path / "spaces.toml").write_text(block("mase_hw/search", "toml", "# spaces.toml"))
    command = [SCRIPTS / "mase-hw", "search", "digits-mlp", "--config", "spaces.toml"]
    run([*command, "--trials", "3", "--samples", "50", "-o", "found"], tmp_path)
    best = (tmp_path / "found" / "best.toml").read_text()
    assert "[quantize.linear_0.config]" in best


def test_the_python_example(tmp_path):
    output = run([sys.executable, "-c", block(".", "python", "mase_hw.trace(")], tmp_path)
    assert output.splitlines()[-1] == "True 500 torch.Size([100, 5])"
    assert "linear_0" in output
    assert "fixed<8,4>" in output


@pytest.mark.full
def test_the_life_of_a_format(tmp_path):
    """Each line prints what the comment beside it says."""
    script = block("mase_hw", "python", "constant_codes")
    lines = run([sys.executable, "-c", script], tmp_path).splitlines()
    expected = re.findall(r"^print\(.*\)  +# (.*)$", script, re.MULTILINE)
    assert lines[:-1] == expected[:-1]
    assert "lanes=2, width_bits=8" in lines[-1]


@pytest.mark.full
def test_an_operator_from_another_distribution(tmp_path):
    """A file and an entry point, as a distribution on the path."""
    assert len(block("mase_hw/ops", "python", "# cubic.py").splitlines()) < 30
    write_files("mase_hw/ops", tmp_path)
    run([sys.executable, "-c", USES_CUBIC], tmp_path)


@pytest.mark.full
def test_an_operator_with_a_module_of_its_own(tmp_path):
    """The two files, added to a copy of the tree, are all that a new operator takes."""
    package = tmp_path / "mase_hw"
    shutil.copytree(ROOT / "mase_hw", package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("sim", "kernels", "rtl", "templates"):
        shutil.copytree(ROOT / name, package / name)
    files = [item for item in blocks("mase_hw/ops") if item.file and "/" in item.file]
    assert [item.file for item in files] == [
        "mase_hw/ops/fmax.py",
        "mase_hw/cells/fmax.py",
        "rtl/ops/mase_fmax.sv",
    ]
    for item in files:
        path = tmp_path / "mase_hw" / str(item.file).removeprefix("mase_hw/")
        assert not path.exists()
        path.write_text(item.text)
    run([sys.executable, "-c", USES_FMAX], tmp_path)


@pytest.mark.full
def test_the_same_operator_and_its_module_from_another_distribution(tmp_path):
    """Operator, cell and module lie together; what does not fit is refused before it is written."""
    folder = tmp_path / "largest"
    folder.mkdir()
    (folder / "__init__.py").touch()
    operator, cell, module = (item for item in blocks("mase_hw/ops") if "/" in str(item.file))
    here = operator.text.replace("mase_hw.cells.fmax", "largest.fmax")
    (folder / "operator.py").write_text(here)
    (folder / "fmax.py").write_text(cell.text)
    path = folder / "mase_fmax.sv"
    path.write_text(module.text)
    metadata = tmp_path / "largest-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: largest\nVersion: 1.0\n")
    entries = "[mase_hw.operators]\nfmax = largest.operator:Fmax\n"
    (metadata / "entry_points.txt").write_text(entries)
    run([sys.executable, "-c", USES_FMAX], tmp_path)

    faults = {
        "the cell Fmax has the parameter 'LANES'": ("LANES", "WAYS"),
        "the cell Fmax has the port 'data_in_1'": ("data_in_1", "other"),
        "the module mase_fmax has the port 'enable'": (" rst,", " rst, input logic enable,"),
    }
    refused = f"try:\n{indent(USES_FMAX, '    ')}\nexcept mase_hw.MaseError as e:\n    print(e)"
    for expected, (old, new) in faults.items():
        assert old in module.text
        path.write_text(module.text.replace(old, new))
        shutil.rmtree(tmp_path / "build", ignore_errors=True)
        printed = run([sys.executable, "-c", f"import mase_hw\n{refused}"], tmp_path)
        assert printed.startswith(f"fmax: {expected}"), printed
        assert not (tmp_path / "build").exists()
    path.unlink()
    printed = run([sys.executable, "-c", f"import mase_hw\n{refused}"], tmp_path)
    assert printed.startswith("fmax: there is no module mase_fmax for the cell"), printed


@pytest.mark.full
def test_a_format_from_another_distribution(tmp_path):
    """It passes the conformance tests, is trained in, and has hardware, with no other edit."""
    write_files("mase_hw/formats", tmp_path)
    run([sys.executable, "-c", USES_SYMMETRIC], tmp_path)
    tests = ["-p", "no:cacheprovider", str(ROOT / "tests" / "formats" / "test_conformance.py")]
    command = [sys.executable, "-m", "pytest", "-q", *tests, "-k", "symmetric_fixed"]
    printed = run([*command, "--rootdir", str(ROOT)], ROOT, PYTHONPATH=str(tmp_path))
    assert re.search(r"^(1\d|2\d) passed", printed, re.MULTILINE), printed


@pytest.mark.full
def test_the_configuration_of_formats(tmp_path):
    """Every layer gets the entry that the page says, and has hardware with it."""
    write_files("mase_hw/formats", tmp_path)
    script = """
import tomllib
import torch
from torch import nn
import mase_hw

torch.manual_seed(0)
layers = [part for _ in range(4) for part in (nn.Linear(16, 16), nn.ReLU())]
config = tomllib.loads(open("formats.toml").read())["quantize"]
project = mase_hw.emit_verilog(
    nn.Sequential(*layers), torch.randn(32, 16), output="build/formats", config=config,
    parallelism=2,
)
for layer in (0, 2, 4, 6):
    operands = project.mg.call(project.mg.node(f"linear_{layer}")).operands
    print(*(operands[name].format.name for name in ("data_in_0", "weight", "bias")))
report = mase_hw.simulate(project, samples=20)
print(report.bit_exact)
"""
    warning, *lines = run([sys.executable, "-c", script], tmp_path).splitlines()
    assert warning.startswith("relu_7 (module 7): output output: ")
    assert lines == [
        "fixed fixed fixed",
        "mxint mxint mxint",
        "mxint mxint mxint",
        "fixed fp4_e2m1 fixed",
        "True",
    ]


def test_every_command_is_described():
    from mase_hw.cli import build_app

    names = {item.name for item in build_app().registered_commands}
    assert {name for name in names if name and f"mase-hw {name}" not in README} == set()


def test_the_tests_run_as_the_pages_say():
    script = (ROOT / ".ci" / "run").read_text()
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert "python -m pytest -n 2\n" in script
    assert "`python -m pytest -n 2`" in page
    for setting in ("OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=PASSIVE"):
        assert setting in script
        assert setting in page


def test_an_activation_takes_the_file_that_the_page_shows(tmp_path):
    page = (ROOT / "CONTRIBUTING.md").read_text()
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "bent.py").write_text(source)
    script = """
import sys
from mase_hw.ops import activations, operators
activations.__path__.append(sys.argv[1])
print(operators()["bent"].targets)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert run(command, tmp_path).splitlines()[-1] == "('mase.bent.default',)"


@pytest.mark.first(1)
@pytest.mark.parametrize("options", [[], ["--errors"]])
def test_the_table_of_operators(options, monkeypatch, capsys):
    _, output = command(monkeypatch, capsys, "operators", *options)
    for name in ("gelu", "tanhshrink", "leaky_relu"):
        assert name in output
    if options:
        assert re.search(r"gelu +│ fixed<8,4> +│ all 256 +│ 0\.\d+ +│ 0\.00% ", output)
    else:
        (letter,) = re.findall(r"│ linear +│ aten\.linear[^│]*│ +([A-Z]) ", output)
        assert re.search(rf"^{letter}: .*\bfixed\b.*\bmxint\b", output, re.MULTILINE | re.DOTALL)
