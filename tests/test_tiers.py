"""Every test is in one tier and one shard, and the first tier has a test of every unit."""

import argparse
import re
from collections.abc import Collection, Mapping

import pytest
from typer.main import get_command

import tests._tiers
from mase_hw.cells import cells
from mase_hw.cli import build_app
from mase_hw.formats import formats
from mase_hw.ops import Stateful, operators
from mase_hw.registry import modules
from tests._quality import ROOT
from tests._tiers import Shard, distances
from tests.passes.test_every_pass import PASSES


class Collected:
    """A plugin that keeps what is selected."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.names = [item.nodeid for item in session.items]


@pytest.fixture(scope="module")
def first_tier():
    plugin = Collected()
    words = ["--collect-only", "-qq", "-p", "no:cacheprovider", "-p", "no:xdist"]
    status = pytest.main([*words, "--rootdir", str(ROOT), str(ROOT / "tests")], plugins=[plugin])
    assert status == pytest.ExitCode.OK
    return plugin.names


UNITS: Mapping[str, Collection[str]] = {
    "operator": operators(),
    "format": formats(),
    # Those without samples stand in whole designs alone: tests/cells/test_cells.py has the list.
    "cell": [cls.__name__ for cls in cells() if cls.samples()],
    "pass": PASSES,
    "command": get_command(build_app()).commands,  # type: ignore[attr-defined]
    # Operators of ONNX are parameters of tests/doors/test_onnx_operators.py.
    "importer": [
        name.rpartition(".")[2] for name in modules("mase_hw.importers") if ".ops." not in name
    ],
}


@pytest.mark.parametrize("kind", UNITS)
def test_every_unit_is_named_by_a_test_of_the_first_tier(kind, first_tier):
    words = {
        word for name in first_tier for word in re.findall(r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*", name)
    }
    text = "\n".join(words)
    unnamed = [
        unit
        for unit in UNITS[kind]
        if not re.search(rf"(\b|_){unit.replace('-', '_')}(\b|_)", text)
    ]
    assert unnamed == []


def test_the_name_of_an_operator_selects_its_conformance(first_tier):
    names = [name for name in first_tier if name.startswith("tests/test_conformance.py")]
    stateless = [name for name, item in operators().items() if not isinstance(item, Stateful)]
    text = "\n".join(names)
    assert [name for name in stateless if not re.search(rf"[\[-]{name}\]", text)] == []


def test_every_test_is_in_one_shard(first_tier):
    shards = [Shard.parse(f"{number}/7") for number in range(1, 8)]
    assert {sum(shard.holds(name) for shard in shards) for name in first_tier} == {1}
    sizes = [sum(map(shard.holds, first_tier)) for shard in shards]
    assert max(sizes) < 1.3 * min(sizes)


@pytest.mark.parametrize("text", ["5/3", "0/3", "-1/3", "1/0", "3", "1/x", "1/3/5", "", "²/3"])
def test_a_shard_that_does_not_exist_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is no K/N with 1 <= K <= N"):
        Shard.parse(text)


def touched(monkeypatch: pytest.MonkeyPatch, *names: str) -> dict[str, int]:
    monkeypatch.setattr(tests._tiers, "_differing", lambda base: names)
    distances.cache_clear()
    return {str(path.relative_to(ROOT / "tests")): n for path, n in distances("HEAD").items()}


def test_a_change_touches_what_imports_it(monkeypatch):
    found = touched(monkeypatch, "mase_hw/proof/_prove.py")
    assert "proof/test_proof.py" in found
    assert "formats/test_oracles.py" not in found
    # A module of the library is that of the cell that names it; a registry walks its folder.
    found = touched(monkeypatch, "rtl/streams/mase_stream_fifo.sv")
    assert {"cells/test_cells.py", "test_conformance.py"} <= found.keys()
    assert touched(monkeypatch, "README.md", "tests/sim/test_build.py") == {"sim/test_build.py": 0}


def test_a_commit_that_does_not_exist_is_refused(monkeypatch, tmp_path):
    with pytest.raises(pytest.UsageError, match=r"--touched nowhere: .*nowhere"):
        distances("nowhere")
    distances.cache_clear()
    monkeypatch.setattr(tests._tiers, "ROOT", tmp_path)
    with pytest.raises(pytest.UsageError, match=r"--touched HEAD: [^\n]*[Nn]ot a git repo[^\n]*$"):
        distances("HEAD")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.UsageError, match="--touched HEAD: git is not installed"):
        distances("HEAD")
