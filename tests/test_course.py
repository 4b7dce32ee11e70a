"""Every step of the course runs, and prints what the page says."""

import contextlib
import io
import re
import shlex

import pytest

from tests._readme import run
from tests.course import COURSE, PAGE, page

STEPS = [step for part in COURSE["part"] for step in part["step"]]


def test_the_page_is_that_of_the_steps() -> None:
    """`python -m tests.course` writes it anew."""
    assert PAGE.read_text() == page()


@pytest.mark.full
def test_every_line_of_python_prints_what_the_page_says(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(COURSE["start"], names)
    for step in (step for step in STEPS if "python" in step):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(step["python"], names)
        assert step["prints"] in printed.getvalue(), (step["what"], printed.getvalue())


@pytest.mark.full
@pytest.mark.parametrize("step", [step for step in STEPS if "sh" in step], ids=lambda s: s["sh"])
def test_every_command_prints_what_the_page_says(step, tmp_path) -> None:
    text = step.get("toml", "")
    for file in re.findall(r"^\n?# ([\w.]+)\n", text):
        (tmp_path / file).write_text(text)
    assert step["prints"] in run(shlex.split(step["sh"]), tmp_path)
