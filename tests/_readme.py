"""The pages of the tree, their blocks of code, and the folder to run them in."""

import os
import re
import subprocess
import sysconfig
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = Path(sysconfig.get_path("scripts"))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PACKAGE = ("mase_hw/", "rtl/")
HIDDEN = (".", "build", "dist")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and text."""

    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that the block is, where its first line is a comment with a path."""
        found = re.match(r"(?:#|//) ([\w./-]+\.\w+)\n", self.text)
        return found[1] if found else None

    @property
    def continued(self) -> str | None:
        """The file that the block is appended to."""
        found = re.match(r"# ([\w.]+), continued\n", self.text)
        return found[1] if found else None

    @property
    def entry_points(self) -> dict[str, dict[str, str]]:
        """The entry points that a block of `pyproject.toml` declares, by group."""
        if self.language != "toml" or "entry-points" not in self.text:
            return {}
        found: dict[str, dict[str, str]] = tomllib.loads(self.text)["project"]["entry-points"]
        return found


def pages() -> list[Path]:
    """Return every README.md and what lies beside the first, by path."""
    return sorted(
        path
        for path in {*ROOT.glob("*.md"), *ROOT.rglob("README.md")}
        if not any(part.startswith(HIDDEN) for part in path.relative_to(ROOT).parts[:-1])
    )


def links(page: Path) -> list[str]:
    return LINK.findall(FENCE.sub("", page.read_text()))


def blocks(page: str | Path) -> list[Block]:
    path = ROOT / page
    text = (path / "README.md" if path.is_dir() else path).read_text()
    return [Block(*item) for item in FENCE.findall(text)]


def block(page: str, language: str, word: str) -> str:
    (found,) = [
        item.text for item in blocks(page) if item.language == language and word in item.text
    ]
    return found


def write_files(page: str | Path, folder: Path) -> None:
    """Write the files that the blocks of a page are, and install the page's distribution.

    Files of the package itself are left out: a copy of the package is needed to try them.
    """
    for item in blocks(page):
        if item.file is not None and not item.entry_points and not item.file.startswith(PACKAGE):
            path = folder / item.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(item.text)
        if item.entry_points:
            metadata = folder / "example-1.0.dist-info"
            metadata.mkdir()
            text = "Metadata-Version: 2.1\nName: example\nVersion: 1.0\n"
            (metadata / "METADATA").write_text(text)
            lines = [
                line
                for group, entries in item.entry_points.items()
                for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
            ]
            (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def run(command: list[str | Path], folder: Path, **variables: str) -> str:
    """Run a command in a folder, which is also on Python's path; return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(folder), **variables}
    environment["PATH"] = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout
