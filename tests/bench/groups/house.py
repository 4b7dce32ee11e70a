"""The sources in figures: size, long and complex functions, circles, untyped uses."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from tests.bench.base import PYTHON, Benchmark, Row

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("mase_hw", "sim", "kernels", "templates")
LINES_BAR, MEMBERS_BAR, LONG_BAR, COMPLEX_BAR, UNTYPED_BAR = 58_000, 15, 10, 6, 532
LONG, COMPLEX = 50, 11


class House(Benchmark):
    """What a stranger reads."""

    name: ClassVar[str] = "house"
    title: ClassVar[str] = "The Python outside tests"
    default: ClassVar[bool] = False

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures."""
        from mase_hw.ops import Operator

        texts = [path.read_text() for name in FOLDERS for path in (ROOT / name).rglob("*.py")]
        lines = sum(bool(line.strip()) for text in texts for line in text.splitlines())
        yield _at_most("lines that are not blank", lines, LINES_BAR)
        members = {name for name in vars(Operator) if not name.startswith("_")}
        members |= Operator.__annotations__.keys()
        yield _at_most("members of Operator", len(members), MEMBERS_BAR)
        untyped = sum(len(re.findall(r"\bAny\b", text)) for text in texts)
        yield _at_most("uses of Any", untyped, UNTYPED_BAR)
        bench = [path.read_text() for path in (ROOT / "tests" / "bench").rglob("*.py")]
        long = sum(length > LONG for text in (*texts, *bench) for length in _lengths(text))
        yield _at_most(f"functions of more than {LONG} lines, signature aside", long, LONG_BAR)
        yield _at_most(f"functions of a complexity above {COMPLEX}", _complex(), COMPLEX_BAR)
        architecture = importlib.import_module("tests._architecture")
        yield _at_most("circles of files", len(architecture.file_circles(ROOT)), 0)


def _at_most(what: str, found: int, bar: int) -> Row:
    return Row(what, f"{found:,}", f"<= {bar:,}", found <= bar)


def _lengths(text: str) -> Iterator[int]:
    """Yield the lines of each function's body, docstring aside."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node) is not None and len(node.body) > 1
            yield (node.end_lineno or 0) - node.body[int(documented)].lineno + 1


def _complex() -> int:
    command = [PYTHON, "-m", "ruff", "check", "--select", "C901", "--output-format", "concise"]
    command += ["--config", f"lint.mccabe.max-complexity={COMPLEX}", *FOLDERS, "tests/bench"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.count(" C901 ")
