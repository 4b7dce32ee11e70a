"""The emitted folder: the same bytes, clean, complete, and runnable without this package."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw import _cache
from mase_hw.cells.rom_source import pack_words
from mase_hw.emit.design import Memory
from mase_hw.emit.project import Project, write_project
from mase_hw.errors import EmissionError, OutputError
from mase_hw.formats.fixed import Fixed
from mase_hw.graph import MaseGraph
from tests._readme import block
from tests.engines import exact
from tests.flow.perceptrons import JET_TAGGER, by_type, quantized, seeded
from tests.rtl_bench import lint_top

OTHER_MANIFESTS = [f'{{"version": {version}, "files": {{}}}}' for version in range(3)]
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
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project") / "jet"
    return mase_hw.emit_verilog(*seeded(*JET_TAGGER), output=folder, parallelism=4)


def test_the_same_input_gives_the_same_bytes(project, tmp_path):
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


def test_the_folder_holds_what_it_needs_and_nothing_else(project):
    names = set(contents(project.folder))
    listed = set((project.folder / "files.f").read_text().split())
    assert listed <= names
    assert {name for name in names if name.startswith("rtl/")} == listed - {"top.sv"}
    images = {memory.file for memory in project.design.memories}
    assert names == FILES | listed | images
    assert not any(
        str(project.folder).encode() in text for text in contents(project.folder).values()
    )


def test_only_modules_that_are_used_are_copied(project):
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
def test_the_top_lints_clean(name, tmp_path):
    project = mase_hw.emit_verilog(*LINTED[name], output=tmp_path / "linted", parallelism=4)
    lint_top(project.folder)


def test_parameters_restate_the_design_and_refuse_other_values(tmp_path):
    project = mase_hw.emit_verilog(
        *LINTED["perceptron"], output=tmp_path / "linted", parallelism=4, parameters=True
    )
    top = (project.folder / "top.sv").read_text()
    call = project.mg.call(project.mg.node("linear_0"))
    width = call.operands["data_in_0"].format.to_dict()["width"]  # type: ignore[union-attr]
    for name, value in {
        "DATA_IN_0_TENSOR_SIZE_DIM_0": 16,
        "DATA_OUT_0_PARALLELISM_DIM_0": 4,
        "linear_0_DATA_IN_0_PRECISION_0": width,
        "linear_0_WEIGHT_TENSOR_SIZE_DIM_1": 64,
        "linear_0_WEIGHT_PARALLELISM_DIM_1": 4,
    }.items():
        assert f"parameter int {name} = {value}" in top
    lint_top(project.folder)
    with pytest.raises(AssertionError, match="was made for 64"):
        lint_top(project.folder, "-Glinear_0_WEIGHT_TENSOR_SIZE_DIM_1=8")


def test_the_page_shows_lines_of_the_golden_top():
    shown = block("mase_hw/emit", "systemverilog", "linear_0")
    golden = (GOLDEN / "top.sv").read_text()
    assert all(line in golden for line in shown.splitlines())


def test_a_small_project_is_the_golden_one(tmp_path, request):
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


def test_the_ports_and_instances_of_the_top_have_the_known_names(project):
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
def written(tmp_path):
    """A small project in a folder of its own."""
    return mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 6), output=tmp_path / "net").folder


def test_what_a_run_leaves_is_removed_and_what_is_missing_is_written_again(written):
    for name in ("sim/build/top.o", "sim/__pycache__/run.pyc"):
        (written / name).parent.mkdir()
        (written / name).write_text("what a run leaves")
    (written / "files.f").unlink()
    mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 4), output=written)
    assert not (written / "sim" / "build").exists()
    assert (written / "files.f").exists()
    assert "[0:0][7:0]" in (written / "top.sv").read_text()


def test_files_that_were_edited_are_not_overwritten(written):
    (written / "top.sv").write_text("// mine\n" + (written / "top.sv").read_text())
    before = contents(written)
    with pytest.raises(EmissionError, match=r"top\.sv changed since emission, so .* left alone"):
        mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 6), output=written)
    (written / "sim" / "run.py").write_text("")
    with pytest.raises(EmissionError, match=r"run\.py and 1 others changed"):
        mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 6), output=written)
    assert contents(written) == {**before, "sim/run.py": b""}
    (written / "files.f").rename(written / "mine.f")
    (written / "files.f").symlink_to("mine.f")
    with pytest.raises(EmissionError, match=r"files\.f and 2 others changed"):
        emit(written)
    assert (written / "files.f").is_symlink()


def test_a_file_of_others_with_the_name_of_a_new_one_stays(written):
    (written / "mem").mkdir(exist_ok=True)
    (written / "mem" / "linear_weight_source_0.mem").write_text("mine")
    before = contents(written)
    with pytest.raises(EmissionError, match="has a file of that name; move yours away"):
        mase_hw.emit_verilog(nn.Linear(3, 2), torch.randn(2, 3), output=written)
    assert contents(written) == before


@pytest.mark.parametrize("damage", ["missing", "not JSON", "[]", *OTHER_MANIFESTS])
def test_a_folder_without_our_manifest_is_left_alone(written, damage):
    (written / "manifest.json").unlink()
    if damage != "missing":
        (written / "manifest.json").write_text(damage)
    before = contents(written)
    with pytest.raises(EmissionError, match="is not a mase-hw project of this release"):
        mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 6), output=written)
    assert contents(written) == before


def emit(folder: Path) -> Project:
    return mase_hw.emit_verilog(nn.ReLU(), torch.randn(2, 4), output=folder)


def snapshot(folder: Path) -> dict[str, tuple[int, str | bytes]]:
    found: dict[str, tuple[int, str | bytes]] = {}
    for path in sorted(folder.rglob("*")):
        content: str | bytes = ""
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = path.lstat().st_mode, content
    return found


ODD = "odd \n'\"*? name"


def make_theirs(folder: Path) -> dict[str, tuple[int, str | bytes]]:
    """Put into a folder what a user may have: empty, locked, linked, oddly named, not a file."""
    before = snapshot(folder)
    for name in ("empty", "rtl/empty/deep", ODD, "notes/sim/build", "sim/build/mine"):
        (folder / name).mkdir(parents=True)
    for name in (
        "rtl/my_module.sv",
        "notes/sim/build/top.o",
        "sim/build/thesis.txt",
        "old",
        f"{ODD}/-x",
    ):
        (folder / name).write_text(name)
    (folder / ".made-by-mase-hw").write_text("{}")
    (folder / "away").symlink_to("/nowhere")
    (folder / "notes" / "up").symlink_to("..")
    os.mkfifo(folder / "notes" / "pipe")
    (folder / os.fsdecode(b"caf\xe9")).write_text("latin")
    (folder / "empty").chmod(0o555)
    (folder / "notes" / "sim" / "build" / "top.o").chmod(0o440)
    (folder / "notes").chmod(0o555)
    return {name: item for name, item in snapshot(folder).items() if name not in before}


def test_everything_of_others_inside_a_project_stays_as_it_is(written):
    theirs = make_theirs(written)
    written.chmod(0o2775)
    for _ in range(2):
        emit(written)
        after = snapshot(written)
        assert {name: after.get(name) for name in theirs} == theirs
        assert written.stat().st_mode & 0o7777 == 0o2775
        assert [path.name for path in written.parent.iterdir()] == ["net"]


def test_everything_of_others_beside_a_project_stays_as_it_is(tmp_path):
    home, folder = tmp_path / "home", tmp_path / "home" / "net"
    for name in (".net-backup", ".net-x", ".net.old", ".partial-x", ".partial-mase-hw-1", "old"):
        (home / name).mkdir(parents=True)
        make_theirs(home / name)
    for name in (".net-x.lock", ".net-", "net.lock", "net.part", "new", ".made-by-mase-hw"):
        (home / name).write_text(name)
    for path in home.iterdir():
        os.utime(path, (0, 0))
    before = snapshot(home)
    for _ in range(2):
        emit(folder)
        assert {name: item for name, item in snapshot(home).items() if name in before} == before
        assert sorted({item.name for item in home.iterdir()} - {*before}) == ["net"]


@pytest.mark.parametrize("target", ["project", "empty folder", "nothing"])
def test_a_link_to_a_project_stays(tmp_path, target):
    real, link = tmp_path / "a" / "real", tmp_path / "b" / "link"
    link.parent.mkdir()
    if target == "project":
        emit(real)
    elif target == "empty folder":
        real.mkdir(parents=True)
    link.symlink_to("../a/real")
    project = emit(link)
    (real / "theirs").mkdir()
    emit(link)
    assert link.is_symlink()
    assert (project.folder / "theirs").is_dir()
    assert [path.name for path in (*real.parent.iterdir(), *link.parent.iterdir())] == [
        "real", "link",
    ]  # fmt: skip


def test_links_that_lead_nowhere_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(EmissionError, match="cannot be made"):
        emit(tmp_path / "a")


@pytest.mark.full
def test_emissions_to_one_folder_at_the_same_time_lose_nothing(written):
    """One of them goes on, the others are told."""
    theirs = make_theirs(written)
    graphs = [emit(written).mg for _ in range(4)]

    def write(mg: MaseGraph) -> list[str]:
        told = []
        for _ in range(5):
            try:
                write_project(mg, written)
            except OutputError as error:
                told.append(str(error))
        return told

    with ThreadPoolExecutor(4) as pool:
        told = [item for found in pool.map(write, graphs) for item in found]
    assert len(told) < 20
    assert all(item.startswith(f"another run is writing to {written}") for item in told)
    after = snapshot(written)
    assert {name: after.get(name) for name in theirs} == theirs
    assert [path.name for path in written.parent.iterdir()] == ["net"]


class Killed(BaseException):
    """Ends an emission as a signal does that nobody can catch."""


def kill_at(moment: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Emit to a folder, and end before this renaming; nothing is renamed or removed any more."""
    left, real = moment, Path.rename

    def rename(path: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left <= 0:
            raise Killed
        return real(path, target)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "rename", rename)
        patch.setattr(_cache, "_remove", lambda _: None)
        emit(folder)


@pytest.mark.first(2)
@pytest.mark.parametrize("moment", [1, 2, 3])
@pytest.mark.parametrize("since", ["nothing", "an empty folder", "a folder", "a project"])
def test_a_kill_loses_nothing_whatever_happens_next(written, moment, since, monkeypatch):
    """It comes before the old project is taken away, before the new one comes, or after."""
    theirs = make_theirs(written)
    kill_at(moment, written, monkeypatch)
    if not written.exists():
        assert moment == 2
        if since == "a project":
            emit(written.with_name("other")).folder.rename(written)
        elif since != "nothing":
            written.mkdir()
        if since == "a folder":
            (written / "mine").write_text("new")
            with pytest.raises(EmissionError, match="is not a mase-hw project"):
                emit(written)
            assert (written / "mine").read_text() == "new"
            shutil.rmtree(written)
    emit(written)
    after = snapshot(written)
    assert {name: after.get(name) for name in theirs} == theirs
    assert [path.name for path in written.parent.iterdir()] == ["net"]


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


@pytest.mark.full
def test_the_testbench_runs_without_this_package_and_finds_broken_rtl(tmp_path):
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


def test_design_json_says_what_the_design_is(project):
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


def test_design_json_says_how_instances_are_connected(project):
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


LEGAL = ("begin", "data_in_0", "data_out_0", "clk", "mase_pkg", "Fixed8x5", "größe", "top")
RELATED = ("a", "a_b", "a_weight", "a_inst", "a_weight_source_0", "a_data_out_0", "data_in_a")


class Named(nn.Module):
    """A chain of small layers with the given names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.names = names
        for name in names:
            self.add_module(name, nn.Linear(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        for name in self.names:
            x = getattr(self, name)(x)
        return x


def emitted(names: Sequence[str], folder: Path) -> Project:
    return mase_hw.emit_verilog(Named(names), torch.randn(4, 3), output=folder)


@pytest.mark.first(1)
@pytest.mark.parametrize("names", [LEGAL, RELATED])
def test_any_names(names, tmp_path):
    exact(emitted(names, tmp_path / "project"), samples=3)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (
            ("a", "a_replay"),
            "an instance of a_replay and an instance of a are both called a_replay_inst in the "
            "top; rename a layer",
        ),
        (("z" * 300,), "has 30. characters, at most 200 are allowed; rename the layer"),
    ],
)
def test_a_name_that_is_refused(names, problem, tmp_path):
    with pytest.raises(EmissionError, match=problem) as error:
        emitted(names, tmp_path / "project")
    assert len(str(error.value)) < 250
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("width", [1, 4, 5, 32, 60, 63, 64, 65, 200])
def test_every_word_is_a_line_of_digits(width):
    rng = random.Random(width)
    words = (0, (1 << width) - 1, *(rng.getrandbits(width) for _ in range(20)))
    lines = Memory("name", "node", width, words).render().splitlines()
    assert [int(line, 16) for line in lines] == list(words)
    assert {len(line) for line in lines} == {-(-width // 4)}
    assert Memory("name", "node", width, ()).render() == ""


@pytest.mark.parametrize("lanes", [1, 8, 13])
@pytest.mark.parametrize("width", [7, 8, 9, 17])
def test_lanes_lie_side_by_side_in_a_word(width, lanes):
    number = Fixed(width, 2)
    codes = number.random_codes((5, lanes), torch.Generator().manual_seed(1))
    mask = (1 << width) - 1
    expected = [
        sum((code & mask) << (lane * width) for lane, code in enumerate(row))
        for row in codes.tolist()
    ]
    octets = pack_words(number, codes)
    assert octets.shape == (5, -(-width * lanes // 8))
    assert [int.from_bytes(row.tobytes(), "little") for row in octets] == expected
