"""Single mutations of the Python sources: does a test see each?

`python -m tests.bench.mutate [--count 60] [--seed 0] [--seconds 240] [--folder deploy/driver]`
in the checkout's root. A mutation is an operator, a comparison, a condition, a constant, or what
is left out, in `mase_hw/ops`, `passes`, `formats` and `graph`, or in the folder that is named;
messages, types and what runs before tests is left alone. Each runs, in a copy of the tree with a
cache of its own, the tests of its folder, those that name its module or a class of it first, then
such tests of other folders, until one fails. What became of each is printed at once:
`seen` by a test; `LEFT` by all of them; `time`, where the seconds ended before; `void`, where that
test fails without the mutation too. Those that none saw are printed again at the end.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests._quality import OUTSIDE, ROOT

FOLDERS = ("ops", "passes", "formats", "graph")
BINARY: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Div: "*", ast.Mod: "*",
    ast.LShift: ">>", ast.RShift: "<<", ast.BitAnd: "|", ast.BitOr: "&", ast.Pow: "*",
}  # fmt: skip
COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
# Files that are tried of those that name a module, the ones that are read fastest first.
MOST_FILES = 8
# Tests of whole networks, of tools and of the text itself.
NO_TESTS = ("test_quality", "test_readme", "test_packaging", "test_fuzz")


@dataclass(frozen=True)
class Mutation:
    """A piece of a source and what stands there instead."""

    path: Path
    line: int
    start: int
    end: int
    text: str
    was: str

    def __str__(self) -> str:
        """Return one line."""
        was, now = (" ".join(text.split()) for text in (self.was, self.text))
        return f"{self.path.relative_to(ROOT)}:{self.line}: `{was[:90]}` is `{now[:90]}`"


class Finder(ast.NodeVisitor):
    """The mutations of a source."""

    def __init__(self, path: Path) -> None:
        self.found: list[Mutation] = []
        self._path, self._text = path, path.read_text()
        lines = self._text.splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))
        self._lines, tree = lines, ast.parse(self._text)
        self._dump = ast.dump(tree)
        self.visit(tree)

    def visit(self, node: ast.AST) -> None:
        """Visit what is no message, type, name of a class or import."""
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None and "ClassVar" not in ast.unparse(node.annotation):
                self.visit(node.value)
            return
        if isinstance(node, ast.FunctionDef):
            for item in (*node.args.defaults, *node.args.kw_defaults, *node.body):
                if item is not None:
                    self.visit(item)
            return
        super().visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        sign = BINARY.get(type(node.op))
        left, right = self._of(node.left), self._of(node.right)
        if sign and not isinstance(node.left, ast.Constant | ast.JoinedStr):
            self._add(node, f"({left}) {sign} ({right})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sign = COMPARED[type(node.ops[0])]
        rest = self._between(node.comparators[0], node)
        self._add(node, f"{self._of(node.left)} {sign} {rest}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        sign = " or " if isinstance(node.op, ast.And) else " and "
        self._add(node, "(" + sign.join(f"({self._of(item)})" for item in node.values) + ")")
        for item in node.values:
            others = [self._of(other) for other in node.values if other is not item]
            joined = (" and " if isinstance(node.op, ast.And) else " or ").join(others)
            self._add(node, f"({joined})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self._add(node, f"({self._of(node.operand)})")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._add(node, f"({self._of(node.body)})")
        self._add(node, f"({self._of(node.orelse)})")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        self._add(node.test, "True")
        self._add(node.test, "False")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._add(node, f"({self._of(node)} + 1)")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._add(node, "pass")
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node, "pass")
        self.generic_visit(node)

    def _place(self, line: int, column: int) -> int:
        text = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(text)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._place(node.lineno, node.col_offset)
        return start, self._place(node.end_lineno, node.end_col_offset)

    def _of(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._text[start:end]

    def _between(self, first: ast.AST, last: ast.AST) -> str:
        return self._text[self._span(first)[0] : self._span(last)[1]]

    def _add(self, node: ast.expr | ast.stmt, text: str) -> None:
        start, end = self._span(node)
        changed = self._text[:start] + text + self._text[end:]
        try:
            tree = ast.parse(changed)
        except SyntaxError:
            return
        if ast.dump(tree) != self._dump:
            was = self._text[start:end]
            self.found.append(Mutation(self._path, node.lineno, start, end, text, was))


@cache
def mutations(path: Path) -> list[Mutation]:
    return Finder(path).found


def sample(count: int, seed: int, folders: Sequence[str] = FOLDERS) -> list[Mutation]:
    """Return mutations, as many of each folder, each file as likely as it is long."""
    found: list[Mutation] = []
    chance = random.Random(seed)
    for number, folder in enumerate(folders, 1):
        paths = sorted((ROOT / "mase_hw" / folder).rglob("*.py"))
        every = [path for path in paths for _ in range(path.stat().st_size // 1000)]
        while len(found) < count * number // len(folders):
            given = mutations(chance.choice(every))
            item = chance.choice(given) if given else None
            if item is not None and item not in found:
                found.append(item)
    return found


def tests_of(path: Path) -> list[list[str]]:
    """Return calls of pytest for the tests that name a module, the most fitting first, and others.

    The others are those of its folder, and the conformance of operators.
    """
    stem = path.stem.lstrip("_")
    folder = path.relative_to(ROOT / "mase_hw").parts[0]
    names = [stem, *re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)]
    names += re.findall(r"^def ([a-z]\w+)", path.read_text(), re.MULTILINE)
    any_name = re.compile(rf"\b({'|'.join(names)})\b")
    found = []
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        if test.stem in (*NO_TESTS, "test_conformance") and test.parent.name == "tests":
            continue
        count = len(any_name.findall(test.read_text()))
        if count or test.stem == f"test_{stem}":
            own = test.parent.name == folder
            found.append((test.stem != f"test_{stem}", not own, -count, str(test)))
    # Few calls: most of a short file's time is the start of Python and torch.
    named = [str(Path(name).relative_to(ROOT)) for *_, name in sorted(found)[:MOST_FILES]]
    near = [str(path.relative_to(ROOT)) for path in (ROOT / "tests" / folder).glob("test_*.py")]
    calls = [[test for test in named if test in near], sorted({*near} - {*named})]
    calls.append([test for test in named if test not in near])
    if folder == "ops":
        # Those that build nothing: they take all operators together.
        chosen = "example or expression or reference"
        calls.append(["tests/test_conformance.py", "-k", chosen])
    return [call for call in calls if call]


def failure(call: Sequence[str], copy: Path, seconds: float) -> str:
    """Return the line of the first test that fails; nothing where all pass.

    Raises:
        subprocess.TimeoutExpired: where they take longer.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *call]
    variables = {
        "MASE_HW_CACHE": str(copy / ".cache"), **os.environ,
        "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    done = subprocess.run(
        [*command, "-p", "no:xdist", "-m", "not full"], cwd=copy, env=variables,
        capture_output=True, text=True, check=False, timeout=max(seconds, 0),
    )  # fmt: skip
    # 5: no test has the name.
    if done.returncode in (0, 5):
        return ""
    lines = [line for line in done.stdout.splitlines() if line[:5] in ("FAILE", "ERROR")]
    return (lines or [done.stdout[-200:]])[0]


def outcome(
    item: Mutation, copy: Path, seconds: float, calls: Sequence[Sequence[str]] = ()
) -> tuple[str, str]:
    """Return what becomes of a mutation, and the test that sees it.

    Args:
        item: a change of one file.
        copy: of the tree.
        seconds: that its tests may take together.
        calls: of pytest, in order; without any, the tests that name the module.
    """
    path = copy / item.path.relative_to(ROOT)
    text = path.read_text()
    path.write_text(text[: item.start] + item.text + text[item.end :])
    end = time.monotonic() + seconds
    by = ""
    try:
        for call in calls or tests_of(item.path):
            by = by or failure(call, copy, end - time.monotonic())
    except subprocess.TimeoutExpired:
        return "time", ""
    finally:
        path.write_text(text)
    test = by.partition(" ")[2].partition(" - ")[0]
    if test and failure([test], copy, seconds):
        return "void", by[:150]
    return "seen" if by else "LEFT", by[:150]


def copied(folder: Path) -> Path:
    """Return a copy of the tree, whose state is a commit."""
    listed = ["git", "ls-files", "-zco", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    # An editable install would give the copy what lies outside the package here.
    for name in OUTSIDE:
        (folder / "mase_hw" / name).symlink_to(folder / name)
    author = ["-c", "user.name=copy", "-c", "user.email=copy@localhost"]
    for words in (["init"], ["add", "--all"], [*author, "commit", "--message", "copy"]):
        subprocess.run(["git", *words], cwd=folder, capture_output=True, check=True)
    return folder


def results(items: Sequence[Mutation], seconds: float) -> Iterator[tuple[Mutation, str, str]]:
    """Yield each mutation with what becomes of it, and by which test."""
    with tempfile.TemporaryDirectory(prefix="mase-hw-mutate-") as name:
        copy = copied(Path(name))
        for item in items:
            yield item, *outcome(item, copy, seconds)


def main() -> None:
    """Print what becomes of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--folder", action="append")
    options = parser.parse_args()
    left, chosen = [], sample(options.count, options.seed, options.folder or FOLDERS)
    for item, became, by in results(chosen, options.seconds):
        sys.stdout.write(f"{became} {item} {by}\n")
        sys.stdout.flush()
        left += [] if became == "seen" else [f"{became} {item}\n"]
    sys.stdout.write(f"{options.count - len(left)} of {options.count} seen\n")
    sys.stdout.writelines(left)


if __name__ == "__main__":
    main()
