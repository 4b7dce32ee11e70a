"""Processes of tools, which end when the process that started them ends, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# It reads from a pipe that nobody writes to, and whose other end closes with its holder.
_WATCH = ("/bin/sh", "-c", "read _; kill -9 0")


@dataclass(frozen=True)
class _Watcher:
    process: int
    pipe: int
    key: tuple[int, int]


_lock = threading.Lock()
_watcher: _Watcher | None = None


def tool_group() -> int:
    """Return the process group for what this process starts, as `subprocess` takes it.

    All that is in it, and what that has started, is killed once this process is gone.
    """
    global _watcher
    with _lock:
        if _watcher is None or not _is_of_use(_watcher):
            _watcher = _start()
        return _watcher.process


def run_python(
    arguments: list[str], folder: Path, look: Callable[[str], None]
) -> tuple[int, list[str]]:
    """Run Python in a folder; return its status and the lines that it said, of errors too.

    Args:
        arguments: of the interpreter.
        folder: where it runs.
        look: called with each line as it comes.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=tool_group(),
    )
    lines = []
    try:
        for line in process.stdout or ():
            lines.append(line.rstrip())
            look(line)
    except BaseException:
        process.kill()
        raise
    finally:
        process.communicate()
    return process.returncode, lines


def _is_of_use(watcher: _Watcher) -> bool:
    # Groups do not reach beyond a session.
    if watcher.key != _key():
        return False
    try:
        return os.waitpid(watcher.process, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def _start() -> _Watcher:
    ours, theirs = os.pipe(), os.open(os.devnull, os.O_WRONLY)
    try:
        actions = [
            (os.POSIX_SPAWN_DUP2, source, to)
            for source, to in ((ours[0], 0), (theirs, 1), (theirs, 2))
        ]
        process = os.posix_spawn(_WATCH[0], _WATCH, os.environ, file_actions=actions, setpgroup=0)
    finally:
        os.close(ours[0])
        os.close(theirs)
    return _Watcher(process, ours[1], _key())


def _key() -> tuple[int, int]:
    return os.getpid(), os.getsid(0)


def _forget() -> None:
    """Let the watcher of the parent go: it would wait for this process too."""
    global _watcher, _lock
    _lock = threading.Lock()
    if _watcher is not None:
        os.close(_watcher.pipe)
        _watcher = None


os.register_at_fork(after_in_child=_forget)
