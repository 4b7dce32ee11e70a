"""An element-wise function of another distribution passes all tests of functions, none edited."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
from math import inf

from mase_hw.approximation import Domain
from mase_hw.ops import Unary


class Logit(Unary):
    name = "logit"
    targets = ("aten.logit.default",)

    def equation(self, x, math, attributes):
        return math.log(x / (1 - x))

    def domain(self, attributes):
        return Domain(low=0.0, high=1.0, poles={0.0: -inf, 1.0: inf})
"""


@pytest.mark.full
def test_a_new_function_needs_no_edit(tmp_path):
    (tmp_path / "logit.py").write_text(SOURCE)
    metadata = tmp_path / "logit-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: logit\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[mase_hw.operators]\nlogit = logit:Logit\n")
    files = [f"tests/{name}.py" for name in ("ops/test_unary", "ops/test_elementwise")]
    files += [f"tests/{name}.py" for name in ("passes/test_raise_patterns", "test_conformance")]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", *files],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("[logit") >= 8, result.stdout
