"""Compile C++ and CUDA sources into shared libraries once per machine, compiler and content."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mase_hw._cache import cache_folder, locked, scratch_folder
from mase_hw._processes import tool_group
from mase_hw.errors import ToolError

logger = logging.getLogger(__name__)

# No contraction: a fused multiply-add appears where the source says so and nowhere else.
CPP_FLAGS = (
    *("-std=c++17", "-O3", "-ffp-contract=off"),
    *("-fopenmp", "-fPIC", "-shared"),
)
CUDA_FLAGS = ("-std=c++17", "-O3", "--expt-relaxed-constexpr", "-shared", "-Xcompiler", "-fPIC")
TIMEOUT_SECONDS = 600


def cpp_compiler() -> str | None:
    """Return the C++ compiler: `$CXX`, g++ or clang++, whichever is found first."""
    candidates = (os.environ.get("CXX"), "g++", "clang++")
    return next((path for name in candidates if name and (path := shutil.which(name))), None)


def cuda_compiler() -> str | None:
    """Return nvcc, when it is on the path."""
    return shutil.which("nvcc")


def cute_include() -> Path | None:
    """Return the folder of the CuTe headers of the package `nvidia-cutlass`, when installed."""
    spec = importlib.util.find_spec("cutlass_library")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "source" / "include"
    return folder if folder.is_dir() else None


def build_cpp(source: Path, flags: Sequence[str] = CPP_FLAGS, headers: Sequence[Path] = ()) -> Path:
    """Return the shared library compiled from `source`, building it when the cache has none.

    The cache key covers the source, the flags, and the compiler with the instruction set that it
    targets, so a home folder shared by different machines is safe.

    Raises:
        ToolError: when there is no compiler or it fails; the message carries its first error.
    """
    tool = cpp_compiler()
    if tool is None:
        raise ToolError("no C++ compiler was found; install g++ or set CXX")
    identity = _output([tool, "-march=native", "-dM", "-E", "-x", "c++", os.devnull])
    return _build(source, headers, [tool, *flags], identity)


def build_cuda(source: Path, headers: Sequence[Path], architecture: str) -> Path:
    """Return the shared library compiled from a CUDA `source` for `architecture`, `sm_90` say.

    Raises:
        ToolError: when nvcc or the CuTe headers are missing, or nvcc fails.
    """
    tool, include = cuda_compiler(), cute_include()
    if tool is None:
        raise ToolError("nvcc was not found; install the CUDA toolkit and put it on PATH")
    if include is None:
        raise ToolError("the CuTe headers were not found; pip install nvidia-cutlass")
    version = include.joinpath("cutlass", "version.h").read_bytes()
    code = architecture.removeprefix("sm_")
    target = f"-gencode=arch=compute_{code},code=sm_{code}"
    command = [tool, target, *CUDA_FLAGS, f"-I{include}"]
    return _build(source, headers, command, _output([tool, "--version"]) + version)


def load_library(library: Path) -> ctypes.CDLL:
    """Load a library that one of the functions above has built.

    torch must be imported first: its OpenMP runtime has the soname that the library asks for, and
    one runtime means one pool of threads.
    """
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise ToolError(f"{library} does not load: {error}") from error


def _build(source: Path, headers: Sequence[Path], command: list[str], identity: bytes) -> Path:
    key = hashlib.sha256()
    contents = [path.read_bytes() for path in (source, *headers)]
    for part in (*contents, "\0".join(command).encode(), identity):
        key.update(hashlib.sha256(part).digest())
    library = cache_folder("kernels") / f"{source.stem}-{key.hexdigest()[:24]}.so"
    if library.exists():
        return library
    with locked(library):
        if not library.exists():
            with scratch_folder(library.parent) as scratch:
                logger.info("compiling %s", source.name)
                built = scratch / library.name
                _compile([*command, str(source), "-o", str(built)])
                built.replace(library)
    return library


def _compile(command: list[str]) -> None:
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        process_group=tool_group(),
    )
    if result.returncode != 0:
        lines = (result.stderr or result.stdout).strip().splitlines() or ["no output"]
        first = next((line for line in lines if "error" in line), lines[0])
        raise ToolError(f"{command[0]} failed: {first}")


@cache
def _cached_output(command: tuple[str, ...]) -> bytes:
    result = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS)
    if result.returncode != 0:
        message = result.stderr.decode(errors="replace").strip()
        raise ToolError(f"{command[0]} does not run: {message}")
    return result.stdout


def _output(command: list[str]) -> bytes:
    return _cached_output(tuple(command))
