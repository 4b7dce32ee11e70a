"""The Triton kernels: on the CPU under the interpreter, and compiled for GPUs that are not here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mase_hw.kernels.mxint import selected
from mase_hw.kernels.mxint import triton as triton_kernels

FOLDER = Path(__file__).parent
INSTALLED = "not installed" not in (triton_kernels.unavailable() or "")


def test_interpreter_runs_every_implementation_test():
    if not INSTALLED:
        assert selected("linear").name != "triton"
        return
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
    command += [str(FOLDER / "test_mxint_implementations.py"), "-k", "triton or any_shape"]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-4000:]
    passed = int(result.stdout.split(" passed")[0].split()[-1])
    assert passed >= 30, result.stdout


@pytest.mark.full
@pytest.mark.parametrize("capability", [80, 90])
def test_kernels_compile_for_gpus(capability, tmp_path):
    if not INSTALLED:
        assert triton_kernels.unavailable()
        return
    script = tmp_path / "compile_all.py"
    script.write_text(_COMPILE_ALL)
    command = [sys.executable, str(script), str(capability)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-4000:]
    lines = result.stdout.split()
    assert lines == ["dequantize", "dequantize", "quantize", "linear", "linear", "linear_both"]


_COMPILE_ALL = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from mase_hw.kernels.mxint import _triton_kernels as kernels

CODES, INTEGER = ["*i8", "*u8"], "i32"
TILE = {"BLOCK": 32, "HAS_BIAS": True, "TILE_M": 16, "TILE_N": 32}
CASES = [
    (kernels.dequantize, [*CODES, "*i16", "i32", "i32", "i32"],
     {"BLOCK": 32, "WHOLE": True, "HALF": True, "TILE": 4096}),
    (kernels.dequantize, [*CODES, "*i32", "i32", "i32", "i32"],
     {"BLOCK": 7, "WHOLE": False, "HALF": False, "TILE": 4096}),
    (kernels.quantize, ["*i32", *CODES, "i32", "i32", "i32"],
     {"BLOCK": 32, "PADDED": 32, "HALF": False, "TILE": 128}),
    (kernels.linear, ["*bf16", *CODES, "*bf16", "*bf16", "i32", "i32", "i32", "i32"],
     {**TILE, "HALF": True, "WIDE": False, "TILE_K": 128}),
    (kernels.linear, ["*fp32", *CODES, "*fp32", "*fp32", "i32", "i32", "i32", "i32"],
     {**TILE, "HALF": False, "WIDE": False, "TILE_K": 64}),
    (kernels.linear_both, [*CODES, *CODES, "*bf16", "*bf16", "i32", "i32", "i32", "i32"],
     {**TILE, "PADDED": 32}),
]
for kernel, types, constants in CASES:
    names = kernel.arg_names
    signature = dict(zip(names, types)) | {name: "constexpr" for name in constants}
    target = GPUTarget("cuda", int(sys.argv[1]), 32)
    source = ASTSource(kernel, signature, {(names.index(k),): v for k, v in constants.items()})
    built = triton.compile(source, target=target)
    assert len(built.asm["cubin"]) > 1000
    print(kernel.__name__)
"""
