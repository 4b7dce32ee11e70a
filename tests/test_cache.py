"""The cache heals itself, and a process that is killed leaves nothing that stays."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw import _cache
from mase_hw._cache import cache_folder, scratch_folder
from mase_hw.errors import CacheError
from mase_hw.models import models
from mase_hw.sim._cache import build_once


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
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


def test_a_project_survives_a_kill_between_the_old_one_and_the_new(tmp_path):
    """At that moment there is no folder of its name; the next emission puts it back first."""
    folder = tmp_path / "net"
    torch.manual_seed(0)
    model, inputs = nn.Linear(4, 3).eval(), torch.randn(2, 4)
    mase_hw.emit_verilog(model, inputs, output=folder)
    (folder / "thesis.txt").write_text("years of work")
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not folder.exists()
    project = mase_hw.emit_verilog(model, inputs, output=folder)
    assert (folder / "thesis.txt").read_text() == "years of work"
    assert project.folder == folder
    assert [path.name for path in tmp_path.iterdir()] == ["net"]


def test_an_unlocked_folder_is_left_alone_until_it_is_old(tmp_path):
    """Between making a folder and locking it a process may be asleep."""
    young = tmp_path / ".partial-young"
    young.mkdir()
    with scratch_folder(tmp_path):
        assert young.is_dir()
    past = time.time() - 2 * _cache.LOCKED_SECONDS
    os.utime(young, (past, past))
    with scratch_folder(tmp_path):
        assert not young.exists()
