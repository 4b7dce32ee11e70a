"""Verilator's runtime and its headers, compiled once per machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from mase_hw._cache import cache_folder
from mase_hw.sim._cache import build_once, content_key
from mase_hw.sim.compiling import NO_WARNINGS, BuildError, compile_source, defines
from mase_hw.sim.tools import Compiler, Verilator

RUNTIME_FLAGS = ("-std=gnu++17", "-Og", *NO_WARNINGS)
# What generated sources and the engines' mains include.
HEADERS = (
    *("verilated.h", "verilated_dpi.h", "verilated_vpi.h"),
    *("array", "chrono", "cmath", "cstdint", "cstdio", "cstring", "deque", "fstream", "iterator"),
    *("memory", "string", "tuple", "vector"),
)
# Compiling the headers ahead takes as long as these builds save by it.
BUILDS_BEFORE = 4


def runtime_includes(verilator: Verilator) -> list[str]:
    """Return the options that find Verilator's headers."""
    include = verilator.root / "include"
    return [f"-isystem{include}", f"-isystem{include / 'vltstd'}"]


def runtime_objects(verilator: Verilator, compiler: Compiler, sources: Iterable[str]) -> list[Path]:
    """Return Verilator's runtime as objects: what every model needs as one, the rest one each."""
    common = ["verilated.cpp", "verilated_threads.cpp", "verilated_vpi.cpp"]
    groups = [common, *([name] for name in sources if name not in common)]

    def build(group: list[str]) -> Path:
        key = _key(verilator, compiler, group, RUNTIME_FLAGS)

        def make(folder: Path) -> None:
            unit = folder / "unit.cpp"
            unit.write_text("".join(f'#include "{name}"\n' for name in group))
            flags = [*RUNTIME_FLAGS, *defines(waves=False), *runtime_includes(verilator)]
            compile_source(compiler, flags, unit, folder / "unit.o")

        return build_once("runtime", key, make) / "unit.o"

    return [build(group) for group in groups]


def headers_ahead(verilator: Verilator, compiler: Compiler, flags: Sequence[str]) -> list[str]:
    """Return options that read the headers as they were compiled ahead, with the same `flags`.

    There are none on the first builds of a machine, and for compilers other than GCC.
    """
    builds = sum(entry.is_dir() for entry in cache_folder("executables").iterdir())
    if builds < BUILDS_BEFORE or "clang" in compiler.version.lower():
        return []

    def make(folder: Path) -> None:
        header = folder / "headers.h"
        header.write_text("".join(f"#include <{name}>\n" for name in HEADERS))
        options = [*flags, *defines(waves=False), *runtime_includes(verilator), "-xc++-header"]
        compile_source(compiler, options, header, folder / "headers.h.gch")

    try:
        folder = build_once("headers", _key(verilator, compiler, HEADERS, flags), make)
    except BuildError:
        return []
    return ["-include", str(folder / "headers.h")]


def _key(verilator: Verilator, compiler: Compiler, names: object, flags: object) -> str:
    return content_key(names, flags, verilator.version, str(verilator.root), compiler.version)
