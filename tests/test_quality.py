"""The sources are clean under each tool."""

import pytest

from tests._docstrings import missing, too_short
from tests._quality import (
    CHECKS,
    ROOT,
    mypy,
    rtl_files,
    ruff_check,
    ruff_format,
    verible,
    verilator_lint,
)


def test_ruff_check():
    status, output = ruff_check()
    assert status == 0, output


def test_ruff_format():
    status, output = ruff_format()
    assert status == 0, output


# A first run takes minutes: `.ci/run` has it anyway.
@pytest.mark.full
def test_mypy_strict():
    status, output = mypy()
    assert status == 0, output


def test_verible_lint():
    status, output = verible()
    assert status == 0, output


@pytest.mark.parametrize("path", rtl_files(), ids=lambda path: path.stem)
def test_verilator_lint_of_default_parameters(path):
    status, output = verilator_lint(path)
    assert status == 0, output


def test_verilator_lint_refuses_a_warning(tmp_path):
    path = tmp_path / "mase_broken.sv"
    path.write_text(
        "module mase_broken (input logic [3:0] a, output logic b);\nassign b = a;\nendmodule\n"
    )
    status, output = verilator_lint(path)
    assert status != 0
    assert "WIDTHTRUNC" in output


def test_no_module_turns_a_warning_off():
    silenced = [path.name for path in rtl_files() if "lint_off" in path.read_text()]
    assert silenced == []


def test_every_check_has_a_commit_hook():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for name in CHECKS:
        assert f"entry: python tests/_quality.py {name}\n" in hooks


def test_docstrings_say_something():
    assert too_short(ROOT) == []


def test_every_public_method_that_overrides_none_has_a_docstring():
    assert missing(ROOT) == []


def test_a_docstring_that_is_missing_or_says_nothing_is_found(tmp_path):
    (tmp_path / "mase_hw").mkdir()
    (tmp_path / "mase_hw" / "a.py").write_text(
        "class A:\n    def f(self):\n        pass\n    def g(self):\n        'Return one.'\n"
        "class B(A):\n    def f(self):\n        pass\n    def h(self):\n        pass\n"
    )
    assert [line.split(":")[1] for line in missing(tmp_path)] == ["2", "9"]
    assert [line.split(":")[1] for line in too_short(tmp_path)] == ["4"]
