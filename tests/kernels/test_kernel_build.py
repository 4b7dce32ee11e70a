"""Libraries are built once and whole; a missing or failing compiler is one clear error."""

import ctypes
import threading
from pathlib import Path

import pytest

from mase_hw import _native as build
from mase_hw.errors import ToolError
from mase_hw.kernels import implementations
from mase_hw.kernels.mxint import cpu

SOURCE = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("MASE_HW_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "answer.cpp"
    path.write_text(SOURCE)
    return path


def test_built_once_by_content(source):
    library = build.build_cpp(source)
    stamp = library.stat().st_mtime_ns
    assert ctypes.CDLL(str(library)).answer() == 42
    assert build.build_cpp(source) == library
    assert library.stat().st_mtime_ns == stamp
    source.write_text(SOURCE.replace("42", "43"))
    assert build.build_cpp(source) != library
    assert build.build_cpp(source, ("-O0", "-shared", "-fPIC")) != library


def test_concurrent_builds_make_one_library(source):
    found: list[Path] = []
    workers = [
        threading.Thread(target=lambda: found.append(build.build_cpp(source))) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(set(found)) == 1
    assert [path.name for path in found[0].parent.glob("*.so")] == [found[0].name]
    assert not list(found[0].parent.glob(".partial-*"))


def test_failing_source_names_the_error_and_leaves_nothing(source):
    source.write_text("int broken(")
    with pytest.raises(ToolError, match="error"):
        build.build_cpp(source)
    assert not list((source.parent / "cache" / "kernels").glob("*.so"))


def test_missing_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolError, match="install g\\+\\+ or set CXX"):
        build.build_cpp(cpu.SOURCE)
    assert cpu.unavailable() == "no C++ compiler; install g++ or set CXX"
    with pytest.raises(ToolError, match="nvcc was not found"):
        build.build_cuda(cpu.SOURCE, (), "sm_90")


def test_listing_tells_names_and_reasons():
    listed = {each.name: each for each in implementations()["mxint8"]}
    assert list(listed) == ["cuda", "triton", "cpu", "vectorized", "reference"]
    assert listed["reference"].reason is None
    assert listed["cpu"].operations == ("quantize", "dequantize", "linear", "linear_both")
