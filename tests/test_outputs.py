"""Whatever writes loses nothing of anybody: each command, and each function with a door.

`DOORS` and `COMMANDS` list them; what is new in the package or the commands, and missing here,
fails.
"""

import contextlib
import contextvars
import resource
import shutil
import subprocess
import sys
import time
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import mase_hw
from mase_hw import cli
from mase_hw._config_file import write_config
from mase_hw._drawing import save_figure
from mase_hw._results import RECORD, claimed, result_file, result_folder, write_json, write_table
from mase_hw.cli._files import OUTPUTS
from mase_hw.errors import MaseError
from mase_hw.kernels.profile._report import Report, Table
from mase_hw.sim.compare import Comparison
from mase_hw.sim.native_engine import keep_waveform
from mase_hw.sim.simulate import SimulationReport
from mase_hw.training.history import Epoch, History
from tests._architecture import door_sites, writes_beside_doors

ROOT = Path(__file__).resolve().parents[1]
NET = """
import torch
from torch import nn

def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3)), (torch.randn(20, 4),)
"""
STEPS = '[[steps]]\npass = "quantize"\n'
SPACE = 'trials = 1\nobjectives = ["average_bits"]\n[space.parallelism]\ndefault = [1, 2]\n'
FORMATS = '[quantize]\nby = "type"\n[quantize.default.config]\nname = "fixed"\n'
MODEL, DATA = "net.py:mlp", ("--data", "data.npz")
# Words before the output, files that are written into it ("" for the output itself), and an option
# that reads a file, with one that it takes, and the name by which it is among the outputs.
Words = tuple[str, ...]
COMMANDS: dict[Words, tuple[Words, Words, tuple[str, str, str] | None]] = {
    ("emit-verilog", "-o"): ((MODEL,), ("",), ("--weights", "net.mase", "model.mase")),
    ("build", "-o"): ((MODEL, "--board", "ulx3s"), ("", "../out.bit"), None),
    ("pack-weights", "-o"): (("loads", "--weights", "c.pt"), ("",), ("--weights", "net.mase", "")),
    ("compress", "-o"): (
        (MODEL, *DATA, "--config", "steps.toml"),
        ("model.mase", "config.toml", "report.json", "steps.csv", "accuracy.png"),
        ("--weights", "net.mase", "model.mase"),
    ),
    ("sweep", "-o"): (
        (MODEL, *DATA, "--config", "sweep.toml"), ("sweep.csv", "sweep.json", "sweep.svg"), None
    ),
    ("fit", "-o"): (
        (MODEL,), ("formats.toml", "formats.csv", "front.svg", "model.mase", "noise.json"),
        ("--weights", "net.mase", "model.mase"),
    ),
    ("explore", "-o"): ((MODEL,), ("parallelism.toml", "front.svg"),
        ("--config", "f.toml", "parallelism.toml")),
    ("search", "-o"): (
        (MODEL, "--config", "search.toml"), ("trials.csv", "best.toml", "best.mase"),
        ("--weights", "net.mase", "best.mase"),
    ),
    ("experiment", "-o"): (("areas",), ("areas.csv", "areas.png"), None),
    ("report", "-o"): (("project",), ("",), ("--inputs", "data.npz", "")),
    ("simulate", "--outputs"): (("project",), ("",), ("--inputs", "data.npz", "")),
    ("synth", "--bitstream"): (
        ("project", "--route", "--target", "ice40", "--pins", "f.toml"), ("",),
        ("--pins", "f.toml", ""),
    ),
    ("profile", "torch-compile", "-o"): (("digits-mlp",), ("torch_compile.csv",), None),
    ("profile", "sdpa", "-o"): (("digits-mlp",), ("sdpa.png",), None),
    ("profile", "mxint8", "-o"): (("digits-mlp",), ("mxint8_speed.csv", "mxint8.txt"), None),
    ("profile", "formats", "-o"): (("digits-mlp",), ("formats.txt",), None),
    ("profile", "kernels", "-o"): (("--quick",), ("kernels.csv",), None),
}  # fmt: skip
# Parameters that name what a command reads.
READ = {"project", "config", "weights", "inputs", "compare", "pins", "liberty", "design"}


def the_graph() -> mase_hw.MaseGraph:
    torch.manual_seed(0)
    return mase_hw.trace(nn.Sequential(nn.Linear(4, 3)), torch.randn(20, 4))


def a_report() -> SimulationReport:
    report = object.__new__(SimulationReport)
    values = {"y": torch.zeros(2)}
    for name in ("outputs", "values"):
        object.__setattr__(report, name, values)
    return report


def a_comparison() -> Comparison:
    layer = SimpleNamespace(
        node="y", exact=None, quantized=torch.zeros(2), hardware=torch.zeros(2), sqnr_db=1.0
    )
    comparison = object.__new__(Comparison)
    object.__setattr__(comparison, "layers", {"y": layer})
    return comparison


def waveform(path: Path) -> None:
    recorded = path.parents[2] / "recorded"
    with full_disk(resource.RLIM_INFINITY):
        recorded.write_text("waves" * 1000)
    keep_waveform(SimpleNamespace(waves=True, project=path.parents[1]), recorded)


TABLE = Table("t", "t", ("a",), [(1,)])
HISTORY = History([Epoch(1, 0.5, (0.5,), None, None)], "accuracy", None)
Writer = Callable[[Path], object]
# By the place of a door: a function that writes a file, and that file's name; or the command by
# which it is reached.
DOORS: dict[str, tuple[Writer, str] | str] = {
    "mase_hw/_config_file.py:write_config": (lambda p: write_config(p, {"a": 1}), "a.toml"),
    "mase_hw/_drawing.py:save_figure": (
        lambda p: save_figure(p.with_suffix(""), lambda axes: axes.plot([1, 2])), "a.png"
    ),
    "mase_hw/exporters/onnx.py:export_onnx": (
        lambda p: mase_hw.export_onnx(mase_hw.quantize(the_graph()), p, dialect="qonnx"), "a.onnx"
    ),
    "mase_hw/graph/draw.py:draw_graph": (lambda p: the_graph().draw(p), "a.svg"),
    "mase_hw/graph/serialize.py:save_graph": (lambda p: the_graph().save(p), "a.mase"),
    "mase_hw/_results.py:write_table": (lambda p: write_table(p, [{"a": 1}]), "a.csv"),
    "mase_hw/_results.py:write_json": (lambda p: write_json(p, {"a": "1" * 999}), "a.json"),
    "mase_hw/training/history.py:History.save": (lambda p: HISTORY.save(p), "a.csv"),
    "mase_hw/sim/compare.py:Comparison.save": (lambda p: a_comparison().save(p), "a.npz"),
    "mase_hw/sim/simulate.py:SimulationReport.save_outputs": (
        lambda p: a_report().save_outputs(p), "a.npz"
    ),
    "mase_hw/sim/native_engine.py:keep_waveform": (waveform, "sim/waves.vcd"),
    "mase_hw/kernels/profile/_report.py:Table.write_csv": (lambda p: TABLE.write_csv(p.parent),
                                                           "t.csv"),
    "mase_hw/kernels/profile/_report.py:Report.save": (
        lambda p: Report("t", (), (), lambda: Figure()).save(p.parent), "t.png"
    ),
    "mase_hw/emit/project.py:write_project": (
        lambda p: mase_hw.emit_verilog(the_graph(), output=p), "project"
    ),
    "mase_hw/api.py:emit_verilog": "emit-verilog",
    "mase_hw/api.py:build": "build",
    "mase_hw/cli/explore.py:explore": "explore",
    "mase_hw/cli/fit.py:fit": "fit",
    "mase_hw/cli/build.py:pack_weights": "pack-weights",
    "mase_hw/cli/profile.py:_run": "profile",
    "mase_hw/experiments/_base.py:run_experiment": "experiment",
    "mase_hw/experiments/_base.py:_write": "experiment",
    "mase_hw/experiments/perplexity.py:measure": "experiment",
    "mase_hw/hardware/route.py:_write_bitstream": "synth",
    "mase_hw/pipelines/compression.py:CompressionPipeline.__call__": "compress",
    "mase_hw/pipelines/compression.py:CompressionPipeline._compressed": "compress",
    "mase_hw/pipelines/compression.py:_save": "compress",
    "mase_hw/pipelines/compression.py:CompressionPipeline._run": "compress",
    "mase_hw/pipelines/sweep.py:sweep": "sweep",
    "mase_hw/precision/noise.py:NoiseTable.add_all": "fit",
    "mase_hw/precision/report.py:write": "fit",
    "mase_hw/report/page.py:write_report": "report",
    "mase_hw/search/study.py:_results": "search",
    "mase_hw/search/study.py:search": "search",
    "mase_hw/tutorials/fit.py:main": "experiment",
    "mase_hw/tutorials/mixed_precision.py:main": "experiment",
    "mase_hw/tutorials/search.py:main": "experiment",
    "mase_hw/tutorials/software.py:main": "experiment",
}  # fmt: skip
WRITERS = {place: item for place, item in DOORS.items() if isinstance(item, tuple)}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder with models, data and projects."""
    folder = tmp_path_factory.mktemp("template")
    for name, text in (
        ("net.py", NET),
        ("steps.toml", STEPS),
        ("search.toml", SPACE),
        ("sweep.toml", STEPS + "[sweep]\nseed = [0, 1]\n"),
        ("f.toml", FORMATS),
    ):
        (folder / name).write_text(text)
    mg = the_graph()
    torch.save(mg.model.state_dict(), folder / "c.pt")
    mg.save(folder / "net.mase")
    inputs = np.random.default_rng(0).normal(size=(90, 4)).astype(np.float32)
    np.savez(folder / "data.npz", inputs=inputs, labels=np.arange(90) % 3)
    mase_hw.emit_verilog(mg, output=folder / "project")
    mase_hw.emit_verilog(mg, output=folder / "loads", reload=["*"], deployment="axi-stream")
    return folder


@pytest.fixture
def here(template, tmp_path, monkeypatch):
    shutil.copytree(template, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def contents(folder: Path) -> dict[str, object]:
    """Return each file, folder and link below a folder, without its records and byte code."""
    return {
        str(path.relative_to(folder)): path.readlink() if path.is_symlink()
        else path.read_bytes() if path.is_file() else path.is_dir()
        for path in folder.rglob("*")
        if path.name != RECORD and "__pycache__" not in str(path)
    }  # fmt: skip


@contextlib.contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """Let no file become larger than some bytes: what writes them is told as of a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def another_run(claim: contextlib.AbstractContextManager[object]) -> Iterator[None]:
    """Hold a claim that is not this run's."""
    other = contextvars.Context()
    other.run(claim.__enter__)
    try:
        yield
    finally:
        other.run(claim.__exit__, None, None, None)


def foreign(path: Path) -> None:
    path.write_text("notes of a month")


def linked(path: Path) -> None:
    path.with_name("notes").write_text("notes of a month")
    path.symlink_to("notes")


def changed(path: Path) -> None:
    with result_file(path) as made:
        made.write_text("1")
    path.write_text("edited")


def occupied(path: Path) -> None:
    (path / "theirs").mkdir(parents=True)


BAD = {item.__name__: item for item in (foreign, linked, changed, occupied)}


def refused(run: Callable[[], object], path: Path, around: Path) -> str:
    """Run what must end in one message that names the path, and change nothing."""
    before = contents(around)
    with pytest.raises(MaseError) as caught:
        run()
    assert contents(around) == before
    message = str(caught.value)
    assert path.name in message or path.is_symlink()
    assert "\n" not in message
    assert ";" in message, "what to do about it"
    return message


def command_lines(app: typing.Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield each command, and the option that names its output; check what other paths are."""
    for group in app.registered_groups:
        yield from command_lines(group.typer_instance, (*words, group.name))
    for command in app.registered_commands:
        hints = typing.get_type_hints(command.callback)
        paths = {key for key, hint in hints.items() if Path in (hint, *typing.get_args(hint))}
        assert paths <= READ | {*OUTPUTS}, f"{command.name}: is one of {paths} read or written?"
        for name in paths & {*OUTPUTS}:
            yield *words, command.name, "-o" if name in ("output", "out") else f"--{name}"


def test_every_command_and_door_is_listed():
    assert set(command_lines(cli.build_app())) == COMMANDS.keys()
    assert door_sites(ROOT) == DOORS.keys()
    names = {words[0] for words in COMMANDS}
    assert {item for item in DOORS.values() if isinstance(item, str)} <= names


def test_nothing_is_written_beside_the_door(tmp_path):
    assert writes_beside_doors(ROOT) == []
    (tmp_path / "mase_hw").mkdir()
    text = (
        "def f(path):\n    with result_file(path) as made:\n        made.write_text('')\n    {}\n"
    )
    for call in ("path.write_bytes(b'')", "path.open('w')", "open(path, 'ab')", "torch.save(1, f)",
                 "figure.savefig(path)", "shutil.copy2(path, path)", "np.savez(path)"):  # fmt: skip
        (tmp_path / "mase_hw" / "a.py").write_text(text.format(call))
        assert writes_beside_doors(tmp_path) == ["mase_hw/a.py:4: f"], call


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("place", WRITERS)
def test_a_function_replaces_only_what_it_wrote(place, kind, tmp_path):
    write, name = WRITERS[place]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    BAD[kind](path)
    refused(lambda: write(path), path, tmp_path)


@pytest.mark.parametrize("place", WRITERS)
def test_a_function_writes_whole_files_alone(place, tmp_path):
    """On a full disk, over its own file, and where another run writes."""
    write, name = WRITERS[place]
    path, other = tmp_path / "a" / name, tmp_path / "b" / name
    write(other)
    size = 0 if other.is_dir() else other.stat().st_size
    for limit in (0, 300):
        with full_disk(limit), contextlib.suppress(MaseError):
            write(path)
            assert limit, "it says so"
        assert not path.exists() or path.stat().st_size == size > 0
    for _ in range(2):
        write(path)
    with another_run(claimed(path)):
        message = refused(lambda: write(path), path, path if path.is_dir() else path.parent)
    assert "another run is writing" in message


@pytest.fixture
def run(monkeypatch, capsys):
    """Run `mase-hw` in this process; raise what it says."""

    def command(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["mase-hw", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
            sys.exit(0)
        errors = capsys.readouterr().err
        assert "Traceback" not in errors
        if ended.value.code:
            assert errors.startswith("error: "), errors
            raise MaseError(errors.removeprefix("error: ").strip())

    return command


# Every kind for a folder and for files; what functions do with them is tested above.
CASES = [
    (line, name, kind)
    for line, (_, names, _) in COMMANDS.items()
    for name in names
    for kind in (BAD if line[0] in ("emit-verilog", "fit") else ["foreign"])
]


@pytest.mark.parametrize(("line", "name", "kind"), CASES, ids=lambda item: "".join(item))
def test_a_command_replaces_only_what_it_wrote(line, name, kind, here, run):
    words, output = COMMANDS[line][0], here / "new" / "out"
    path = Path(f"{output}.bit") if name.startswith("..") else output / name if name else output
    path.parent.mkdir(parents=True)
    BAD[kind](path)
    refused(lambda: run(*line[:-1], *words, line[-1], str(output)), path, here)


@pytest.mark.parametrize("line", COMMANDS, ids=lambda item: " ".join(item))
def test_a_command_begins_nothing_that_it_cannot_end(line, here, run):
    """On a full disk, where another run writes, and below a file."""
    words, names, _ = COMMANDS[line]
    output = here / "new" / "out"
    whole = [*line[:-1], *words, line[-1]]
    before = contents(here)
    with full_disk(0), pytest.raises(MaseError):
        run(*whole, str(output))
    assert contents(here) == before
    claim = claimed(output) if names[0] == "" else result_folder(output)
    output.parent.mkdir()
    with another_run(claim):
        message = refused(lambda: run(*whole, str(output)), output, here)
        assert "another run is writing" in message
    refused(lambda: run(*whole, str(here / "f.toml" / "out")), here / "f.toml", here)


@pytest.mark.parametrize(
    "line", [line for line, (*_, read) in COMMANDS.items() if read], ids=lambda item: item[0]
)
def test_a_command_keeps_what_it_reads(line, here, run):
    """Even a file that a command wrote, and might replace else."""
    words, _, read = COMMANDS[line]
    assert read is not None
    option, example, name = read
    output = here / "out"
    path = output / name if name else output
    if line[0] == "emit-verilog":
        mase_hw.emit_verilog(the_graph(), output=output)
    else:
        with result_file(path) as made:
            shutil.copy(here / example, made)
    if option in words:
        place = words.index(option)
        words = words[:place] + words[place + 2 :]
    call = [*line[:-1], *words, option, str(path), line[-1], str(output)]
    assert "is read by this command too" in refused(lambda: run(*call), path, here)


def test_simulate_and_search_keep_other_files(here, run):
    foreign(here / "project" / "sim" / "waves.vcd")
    refused(lambda: run("simulate", "project", "--waves"), Path("waves.vcd"), here)
    with pytest.raises(MaseError, match=r"is read by this command too"):
        with result_file(here / "x.npz") as made:
            shutil.copy(here / "data.npz", made)
        mase_hw.simulate("project", here / "x.npz", outputs=here / "x.npz")


def test_terminals_and_pipes_are_written_to(here, run):
    run("pack-weights", "loads", "--weights", "c.pt", "-o", "/dev/null")
    assert Path("/dev/null").is_char_device()


# A process of `mase-hw` that begins when a file is there.
WAITING = """
import sys, time
from pathlib import Path
import mase_hw.precision, torch
from mase_hw import cli
Path(f"{sys.argv.pop(1)}.ready").touch()
while not Path("go").exists():
    time.sleep(0.001)
cli.main()
"""
RACES = {
    "fit": ((MODEL, "--min-sqnr", "20"), (MODEL, "--min-sqnr", "40")),
    "emit-verilog": ((MODEL, "--parallelism", "1"), (MODEL, "--parallelism", "2")),
}


@pytest.mark.full
@pytest.mark.parametrize("command", RACES)
def test_of_two_processes_in_one_place_one_is_refused(command: str, here: Path) -> None:
    """The files are those of one run alone."""

    def begun(name: str, words: Words, output: str) -> subprocess.Popen[str]:
        line = [sys.executable, "-c", WAITING, name, command, *words, "-o", output]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    both = [begun(str(n), words, "both") for n, words in enumerate(RACES[command])]
    while len([*here.glob("*.ready")]) < 2:
        assert all(run.poll() is None for run in both)
        time.sleep(0.01)
    (here / "go").touch()
    errors = [run.communicate()[1] for run in both]
    ends = [run.returncode for run in both]
    assert sorted(ends) == [0, 1], errors
    assert "another run is writing to both" in errors[ends.index(1)]
    begun("alone", RACES[command][ends.index(0)], "alone").communicate()
    assert contents(here / "both") == contents(here / "alone")
    assert contents(here / "both")
