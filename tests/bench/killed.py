"""What is left of a search of several processes when its main one is killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.bench.base import PYTHON, Row, python_environment

SECONDS, WORKERS, FINISHED = 10.0, 2, 3
MAIN = f"""
import sys

import torch
from torch import nn

import mase_hw

model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
entry = {{"name": "fixed", "data_in_width": [4, 8], "weight_width": [4, 8], "bias_width": 8}}
mase_hw.search(
    mase_hw.trace(model, torch.randn(16, 6), name="killed"),
    {{
        "trials": 100_000,
        "sampler": "random",
        "objectives": ["average_bits"],
        "space": {{"quantize": {{"by": "type", "linear": {{"config": entry}}}}}},
    }},
    output=sys.argv[1],
    workers={WORKERS},
    progress=lambda done, total: print(done, flush=True),
)
"""


def killed_rows() -> list[Row]:
    """Kill the main process while its workers work, and count who is left."""
    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as name:
        shared = Path(name) / "temporary"
        shared.mkdir()
        environment = python_environment(TMPDIR=str(shared))
        command = [PYTHON, "-c", MAIN, str(Path(name) / "study")]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as main:
            assert main.stdout is not None
            for line in main.stdout:
                if int(line) >= FINISHED:
                    break
            before = len(_workers(shared))
            main.send_signal(signal.SIGKILL)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and _workers(shared):
            time.sleep(0.1)
        taken = SECONDS - max(0.0, end - time.monotonic())
        left = len(_workers(shared))
        remove = "from mase_hw.search.worker import remove_leftovers; remove_leftovers()"
        subprocess.run([PYTHON, "-c", remove], env=environment, check=True)
        folders = len(list(shared.glob("mase-hw-search-*")))
    return [
        Row(
            f"kill -9 of a search with {WORKERS} workers: workers alive after {SECONDS:g} s",
            f"{left} of {before}, all gone after {taken:.1f} s" if not left else f"{left}",
            "0",
            left == 0 and before == WORKERS,
        ),
        Row(
            "temporary folders of it after the next start of a search",
            f"{folders}",
            "0",
            folders == 0,
        ),
    ]


def _workers(folder: Path) -> list[int]:
    """Return the processes that work in a temporary folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if "mase_hw.search.worker" in words and str(folder) in words[-2]:
                found.append(int(path.parent.name))
    return found
