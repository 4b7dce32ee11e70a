"""The cache heals itself, and a process that is killed leaves nothing that stays."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mase_hw import _cache
from mase_hw._cache import cache_folder, scratch_folder
from mase_hw._processes import tool_group
from mase_hw._results import check_result, remove_results, result_file, whole_file
from mase_hw.errors import CacheError
from mase_hw.models import models
from mase_hw.sim._cache import build_once, content_key


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(_cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def filled(calls: list[Path]):
    def make(folder: Path) -> None:
        calls.append(folder)
        (folder / "binary").write_bytes(bytes(range(256)) * 10)
        (folder / "inside").mkdir()
        (folder / "inside" / "unit.o").write_bytes(b"object")

    return make


def truncate(folder: Path) -> None:
    os.truncate(folder / "binary", 100)


def lose(folder: Path) -> None:
    (folder / "inside" / "unit.o").unlink()


def flip(folder: Path) -> None:
    data = bytearray((folder / "binary").read_bytes())
    data[7] ^= 1
    (folder / "binary").write_bytes(data)


def forget(folder: Path) -> None:
    (folder / "contents.json").write_text("{")


def replace_by_a_file(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("no folder")


@pytest.mark.parametrize("damage", [truncate, lose, flip, forget, replace_by_a_file])
def test_a_damaged_entry_is_made_again(cache, damage):
    calls: list[Path] = []
    folder = build_once("things", "a", filled(calls))
    assert build_once("things", "a", filled(calls)) == folder
    assert len(calls) == 1
    damage(folder)
    assert build_once("things", "a", filled(calls)) == folder
    assert len(calls) == 2
    assert (folder / "binary").read_bytes() == bytes(range(256)) * 10
    assert (folder / "inside" / "unit.o").read_bytes() == b"object"
    assert not [path for path in folder.parent.iterdir() if path.name.startswith(".partial")]


def test_broken_weights_in_the_cache_are_trained_again(cache):
    name = min(models(), key=lambda item: models()[item].epochs)
    model = models()["digits-mlp"] if "digits-mlp" in models() else models()[name]
    first = model.load().module.state_dict()
    path = next((cache / "models").glob("*.safetensors"))
    os.truncate(path, 50)
    again = model.load().module.state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert path.stat().st_size > 50


@pytest.mark.parametrize("where", ["/dev/null/cache", "/proc/cache", "a\0b", "x" * 300])
def test_a_cache_that_cannot_be_made_is_one_message(where, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    if "\0" in where:
        monkeypatch.setattr(_cache.platformdirs, "user_cache_dir", lambda name: where)
        monkeypatch.delenv(_cache.CACHE_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(_cache.CACHE_VARIABLE, where)
    with pytest.raises(CacheError, match="MASE_HW_CACHE"):
        cache_folder("things")


def test_without_a_home_the_cache_says_so(monkeypatch):
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv(_cache.CACHE_VARIABLE, "~/cache")
    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(CacheError, match="there is no home folder"):
        cache_folder("things")


def test_a_full_disk_leaves_nothing(cache):
    def make(folder: Path) -> None:
        (folder / "half").write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CacheError, match="No space left on device"):
        build_once("things", "a", make)
    assert [path.name for path in (cache / "things").iterdir()] == ["a.lock"]


HOLD = """
import sys, time
from pathlib import Path
from mase_hw._cache import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_left_is_deleted_and_what_a_living_one_has_is_not(tmp_path):
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        for holder in holders:
            assert holder.stdout.readline() == "ready\n"
        assert len(list(tmp_path.glob(".partial-*/half"))) == 2
        holders[0].send_signal(signal.SIGKILL)
        holders[0].wait()
        with scratch_folder(tmp_path):
            assert len(list(tmp_path.glob(".partial-*/half"))) == 1
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
            holder.stdout.close()
    with scratch_folder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from torch import nn
import torch
import mase_hw
real = Path.rename
def rename(path, target):
    if path.name == "new":
        os.kill(os.getpid(), signal.SIGKILL)
    return real(path, target)
Path.rename = rename
torch.manual_seed(0)
mase_hw.emit_verilog(nn.Linear(4, 3).eval(), torch.randn(2, 4), output=sys.argv[1], parallelism=2)
"""


def marked(path: Path, **changes: object) -> Path:
    """Make a folder with a file in it, and the marker of a temporary folder of ours."""
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")
    entry = {"made_by": "mase-hw", "folder": path.name, "inode": path.stat().st_ino}
    (path / _cache.MARKER).write_text(json.dumps({**entry, "purpose": "", **changes}))
    return path


def test_only_what_has_our_marker_is_deleted(tmp_path):
    """Neither a name like ours, nor another folder's marker, nor a file of its name proves it."""
    assert marked(tmp_path / f"{_cache.PARTIAL}0").is_dir()
    with scratch_folder(tmp_path):
        assert not (tmp_path / f"{_cache.PARTIAL}0").exists()
    name = f"{_cache.PARTIAL}theirs"
    (tmp_path / ".partial-x").mkdir()
    marked(tmp_path / ".partial-y")
    marked(tmp_path / f"{name}-copied", folder=f"{name}-first")
    marked(tmp_path / f"{name}-restored", inode=1)
    marked(tmp_path / f"{name}-other", made_by="someone")
    marked(tmp_path / f"{name}-taken", purpose=None)
    for number, text in enumerate(("", "[]", "[" * 4096, "mine", "{}", "\0\xff")):
        (tmp_path / f"{name}-{number}").mkdir()
        (tmp_path / f"{name}-{number}" / _cache.MARKER).write_text(text)
    linked = marked(tmp_path / "elsewhere")
    (tmp_path / f"{name}-link").symlink_to(linked)
    piped = tmp_path / f"{name}-pipe"
    piped.mkdir()
    os.mkfifo(piped / _cache.MARKER)
    (tmp_path / f"{name}-file").write_text("mine")
    past = time.time() - 365 * 24 * 3600
    for path in tmp_path.iterdir():
        os.utime(path, (past, past), follow_symlinks=False)
    before = sorted(tmp_path.rglob("*"))
    with scratch_folder(tmp_path):
        pass
    assert sorted(tmp_path.rglob("*")) == before


def test_what_was_taken_from_its_place_is_not_deleted(tmp_path):
    folder = marked(tmp_path / f"{_cache.PARTIAL}0")
    (folder / _cache.TAKEN).mkdir()
    with scratch_folder(tmp_path):
        pass
    assert (folder / _cache.TAKEN).is_dir()
    with scratch_folder(tmp_path) as scratch:
        (scratch / _cache.TAKEN).mkdir()
    assert (scratch / _cache.TAKEN).is_dir()


def test_the_lock_of_a_file_leaves_a_file_of_its_name_as_it_is(tmp_path):
    (tmp_path / "a.lock").write_text("mine")
    with _cache.locked(tmp_path / "a"):
        pass
    assert (tmp_path / "a.lock").read_text() == "mine"


def test_what_others_put_into_the_cache_stays(cache):
    """Beside our folders, in them, and in the place of one."""
    calls: list[Path] = []
    key = content_key("a")
    folder = build_once("things", key, filled(calls))
    (folder / "thesis.txt").write_text("years of work")
    assert build_once("things", key, filled(calls)) == folder
    assert len(calls) == 1
    truncate(folder)
    build_once("things", key, filled(calls))
    assert [path.read_text() for path in cache.glob("things/*/thesis.txt")] == ["years of work"]
    assert len(calls) == 2
    unused = build_once("things", content_key("b"), filled(calls))
    for name in ("notes", "0" * 24):
        (cache / "things" / name).mkdir()
        (cache / "things" / name / "a.txt").write_text("mine")
    past = time.time() - 365 * 24 * 3600
    for path in (cache / "things").iterdir():
        os.utime(path, (past, past))
    build_once("things", content_key("c"), filled(calls))
    assert not unused.exists()
    assert [path.read_text() for path in sorted(cache.glob("things/*/a.txt"))] == ["mine"] * 2
    assert len(list(cache.glob("things/*/thesis.txt"))) == 1


def test_files_of_results_replace_only_ours(tmp_path):
    path = tmp_path / "deep" / "table.csv"
    for text in ("1", "2"):
        with result_file(path) as made:
            made.write_text(text)
        assert path.read_text() == text
    path.write_text("edited")
    path.with_name("theirs.csv").write_text("theirs")
    remove_results(path.parent, "*")
    assert path.read_text() == "edited"
    assert path.with_name("theirs.csv").read_text() == "theirs"
    path.write_text("2")
    remove_results(path.parent, "*")
    assert not path.exists()


@pytest.mark.parametrize("moves", range(4))
def test_a_file_of_results_is_known_whenever_its_process_is_killed(tmp_path, monkeypatch, moves):
    path, replace, left = tmp_path / "table.csv", Path.replace, moves

    def killed(source: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return replace(source, target)

    with result_file(path) as made:
        made.write_text("1")
    monkeypatch.setattr(Path, "replace", killed)
    with contextlib.suppress(KeyboardInterrupt), result_file(path) as made:
        made.write_text("2")
    assert path.read_text() == "12"[moves > 1]
    check_result(path)


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path, link = tmp_path / "a" / "model.mase", tmp_path / "link"
    with whole_file(path) as made:
        made.write_text("first")
    link.symlink_to(path)
    path.chmod(0o600)
    with whole_file(link) as made:
        made.write_text("second")
    assert link.is_symlink()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("second", 0o600)
    (path.with_name("model.mase.part")).write_text("mine")
    with pytest.raises(ValueError, match="broken"), whole_file(path) as made:
        made.write_text("half")
        raise ValueError("broken")
    assert sorted(item.name for item in path.parent.iterdir()) == ["model.mase", "model.mase.part"]
    assert path.read_text() == "second"
    with whole_file(Path(os.devnull)) as made:
        made.write_text("nothing")
    assert Path(os.devnull).is_char_device()


LINGERING = """
import subprocess, sys
from mase_hw._processes import tool_group
for _ in range(2):
    subprocess.Popen(["sh", "-c", f"sleep 60 & sleep 60 & echo $$ >> {sys.argv[1]}; wait"],
                     process_group=tool_group())
print(tool_group(), flush=True)
input()
"""


def running(group: int) -> int:
    count = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            count += int(its_group) == group and state != "Z"
    return count


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are listed in /proc")
def test_tools_and_what_they_started_end_with_their_process(tmp_path):
    command = [sys.executable, "-c", LINGERING, str(tmp_path / "started")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as main:
        group = int(main.stdout.readline())
        end = time.monotonic() + 120
        while running(group) < 7 and time.monotonic() < end:
            time.sleep(0.02)
        # The watcher, two shells, and what each has started.
        assert running(group) == 7
        main.kill()
    end = time.monotonic() + 120
    while running(group) and time.monotonic() < end:
        time.sleep(0.02)
    assert running(group) == 0


def test_a_forked_process_has_a_group_of_its_own():
    group = tool_group()
    assert tool_group() == group
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(tool_group()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reader, 100)) != group
    assert tool_group() == group
