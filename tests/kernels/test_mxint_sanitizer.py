"""No CPU kernel reads or writes out of bounds, and the sanitizer would notice."""

import subprocess
from pathlib import Path

import pytest

from mase_hw import _native as build
from mase_hw.kernels.mxint import cpu


@pytest.mark.full
def test_address_sanitizer(tmp_path):
    program = tmp_path / "sanitize"
    compiler = build.cpp_compiler()
    assert compiler is not None
    command = [compiler, "-std=c++17", "-O1", "-g", "-ffp-contract=off"]
    command += ["-fopenmp", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command += [f"-I{cpu.SOURCE.parent}", str(Path(__file__).with_name("sanitize_mxint.cpp"))]
    subprocess.run([*command, "-o", str(program)], check=True)
    clean = subprocess.run([str(program)], capture_output=True, text=True)
    assert clean.returncode == 0, clean.stderr
    broken = subprocess.run([str(program), "overflow"], capture_output=True, text=True)
    assert broken.returncode != 0
    assert "heap-buffer-overflow" in broken.stderr
