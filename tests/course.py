"""The page of the course: `python -m tests.course` writes it from the steps that tests run."""

import tomllib
from typing import Any

from tests._readme import ROOT

FOLDER = ROOT / "mase_hw" / "tutorials"
PAGE = FOLDER / "course.md"
COURSE: dict[str, Any] = tomllib.loads((FOLDER / "course.toml").read_text())
LANGUAGES = ("python", "toml", "sh")


def page() -> str:
    """Return the page as Markdown."""
    count = sum(len(part["step"]) for part in COURSE["part"])
    parts = [
        "# The course",
        f"{count} steps of MASE's labs and tutorials, with the lines that do them here. Sizes are "
        "small, so that all run in minutes; without `--set` experiments take their own.",
        block("python", COURSE["start"]),
    ]
    for part in COURSE["part"]:
        parts += [
            f"## {part['name']}",
            f"Notebook: [{part['notebook']}]({part['notebook']}.ipynb).",
        ]
        for step in part["step"]:
            told = [f"Prints `{step['prints']}`.", step.get("differs", "")]
            blocks = [block(kind, step[kind]) for kind in LANGUAGES if kind in step]
            parts += [f"**{step['what']}**", *blocks, " ".join(told).strip()]
    return "\n\n".join(parts) + "\n"


def block(language: str, text: str) -> str:
    return f"```{language}\n{text.strip()}\n```"


if __name__ == "__main__":
    PAGE.write_text(page())
