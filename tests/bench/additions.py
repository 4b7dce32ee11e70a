"""What an addition takes: the examples of the pages, put into a copy of the package and run."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from tests.bench.base import PYTHON, Row, python_environment

# Folders of the package that lie elsewhere in a checkout.
MAPPED = ("sim", "kernels", "rtl", "templates")
BLOCK = re.compile(r"^```\w+\n(?:#|//) ([\w./]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RUN = """
import sys
import torch
from torch import nn
import mase_hw

torch.manual_seed(0)
{program}
for stall in (0.0, 0.3):
    report = mase_hw.simulate(project, samples=50, stall=stall)
    assert report.bit_exact, report.first_mismatch or report.violations
"""
FUNCTION = """
class Model(nn.Module):
    def forward(self, x):
        return x * x * x

project = mase_hw.emit_verilog(Model(), torch.randn(8, 6), output=sys.argv[1], parallelism=3)
assert [node.operator for node in project.design.nodes] == ["cubic"]
"""
OPERATOR = """
class Model(nn.Module):
    def forward(self, x, y):
        return torch.fmax(x, y)

inputs = [torch.randn(8, 7), torch.randn(8, 7)]
config = {"by": "type", "default": {"config": ENTRY}}
project = mase_hw.emit_verilog(
    Model(), inputs, output=sys.argv[1], parallelism=3, config=config
)
assert [node.module for node in project.design.nodes] == ["mase_fmax"]
assert project.design.inputs[0].spec.format.name == ENTRY["name"]
"""
LAYERS = """
entry = {"name": "fixed", "data_in_width": 8, "weight_name": "symmetric_fixed", "bias_width": 8}
config = {"by": "type", "default": {"config": {**entry, "weight_width": 4}}}
project = mase_hw.emit_verilog(
    MODEL, torch.randn(SHAPE), output=sys.argv[1], parallelism=2, config=config
)
call = project.mg.call(project.mg.node("LAYER"))
assert call.operands["weight"].format.name == "symmetric_fixed"
"""
LINEAR = {"MODEL": "nn.Sequential(nn.Linear(8, 4))", "SHAPE": "32, 8", "LAYER": "linear_0"}
CONVOLUTION = {
    "MODEL": "nn.Sequential(nn.Conv2d(2, 4, 3))",
    "SHAPE": "8, 2, 6, 6",
    "LAYER": "conv2d_0",
}


@dataclass(frozen=True)
class Addition:
    """Something that is added.

    Attributes:
        what: what it is.
        files: page and file of each example, by the place in the package where it is put.
        program: emits a design that uses it, as `project`.
        changes: what is replaced in files that are there then.
        bar: files that may be edited.
    """

    what: str
    files: Mapping[str, tuple[str, str]]
    program: str
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    bar: int = 0


def _filled(program: str, words: Mapping[str, str]) -> str:
    for word, text in words.items():
        program = program.replace(word, text)
    return program


FMAX = {
    "ops/fmax.py": ("ops", "mase_hw/ops/fmax.py"),
    "cells/fmax.py": ("ops", "mase_hw/cells/fmax.py"),
    "rtl/ops/mase_fmax.sv": ("ops", "rtl/ops/mase_fmax.sv"),
}
SYMMETRIC = {"formats/symmetric_fixed.py": ("formats", "symmetric_fixed.py")}
# What the page says in words: word, constructor and two cases.
SIGN_MAGNITUDE = {
    "    Offset\n  } encoding_e;": "    Offset,\n    SignMagnitude\n  } encoding_e;",
    "  // The integer that the code of a further kind": (
        "  function automatic format_t sign_magnitude(\n"
        "      input int unsigned width, input int fraction);\n"
        "    format_t made = fixed(width, fraction);\n"
        "    made.encoding = SignMagnitude;\n"
        "    return made;\n"
        "  endfunction\n\n"
        "  // The integer that the code of a further kind"
    ),
    "      default: return int'(code);": (
        "      SignMagnitude:\n"
        "      return code[format.width-1]\n"
        "          ? -int'(code & ((32'd1 << (format.width - 1)) - 1)) : int'(code);\n"
        "      default: return int'(code);"
    ),
    "      default: return unsigned'(number);": (
        "      SignMagnitude:\n"
        "      return (number < 0)\n"
        "          ? (32'd1 << (format.width - 1)) | unsigned'(-number) : unsigned'(number);\n"
        "      default: return unsigned'(number);"
    ),
}
CODED = """
model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 3))
entry = {"name": "sign_magnitude", "data_in_width": 8, "weight_width": 6, "bias_width": 8}
config = {"default": {"config": entry}}
project = mase_hw.emit_verilog(
    model, torch.randn(32, 8), output=sys.argv[1], parallelism=2, config=config
)
specs = [stream.spec for stream in (*project.design.inputs, *project.design.outputs)]
assert {spec.format.name for spec in specs} == {"sign_magnitude"}
"""
ADDITIONS = (
    Addition("a unary function", {"ops/cubic.py": ("ops", "cubic.py")}, FUNCTION),
    Addition(
        "an operator with RTL",
        FMAX,
        _filled(OPERATOR, {"ENTRY": '{"name": "fixed", "data_in_width": 8}'}),
    ),
    Addition("a format with hardware, in linear", SYMMETRIC, _filled(LAYERS, LINEAR)),
    Addition(
        "a format with codes of its own, in linear and casts",
        {**SYMMETRIC, "formats/sign_magnitude.py": ("formats", "sign_magnitude.py")},
        CODED,
        {"rtl/mase_pkg.sv": SIGN_MAGNITUDE},
        bar=1,
    ),
    Addition("the pair of that format and a convolution", SYMMETRIC, _filled(LAYERS, CONVOLUTION)),
    Addition(
        "the pair of an operator and a family of formats that it did not name",
        FMAX,
        _filled(OPERATOR, {"ENTRY": '{"name": "ternary", "data_in_scale": 0.5}'}),
        {
            "ops/fmax.py": {
                "import torch\n": "import torch\n\nfrom mase_hw.formats import Family\n",
                "    shares_format: ClassVar[bool] = True\n": (
                    "    shares_format: ClassVar[bool] = True\n"
                    "    families = frozenset({Family.FIXED, Family.SYMMETRIC})\n"
                ),
            }
        },
    ),
)


def edited_files(package: Path) -> Iterator[Row]:
    """Make each addition in a copy of a package, run it, and count the files that differ.

    Args:
        package: the installed package.
    """
    for addition in ADDITIONS:
        with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as name:
            copy = copied(package, Path(name))
            before = contents(copy)
            edited = _make(addition, copy, package)
            _run(addition, Path(name))
            edited |= changed(before, contents(copy))
        listed = f": {', '.join(sorted(edited))}" if edited else ""
        yield Row(
            f"files edited to add {addition.what}; created: {len(addition.files)}",
            f"{len(edited)}{listed}",
            str(addition.bar),
            len(edited) <= addition.bar,
        )


def copied(package: Path, folder: Path) -> Path:
    """Return a copy of the package in a folder, with all its parts inside."""
    copy = folder / "mase_hw"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, copy, ignore=ignored)
    for name in MAPPED:
        if not (copy / name).exists():
            shutil.copytree(str(files(f"mase_hw.{name}")), copy / name, ignore=ignored)
    return copy


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> set[str]:
    """Return the files that were there before and are not the same."""
    return {path for path, text in before.items() if after.get(path) != text}


def _make(addition: Addition, copy: Path, package: Path) -> set[str]:
    """Create the files of an addition; return those that were changed afterwards."""
    for place, (page, name) in addition.files.items():
        assert not (copy / place).exists(), f"{place} is there already"
        (copy / place).write_text(examples(package / page / "README.md")[name])
    for place, replaced in addition.changes.items():
        text = (copy / place).read_text()
        for old, new in replaced.items():
            assert text.count(old) == 1, f"{place} does not hold {old!r} once"
            text = text.replace(old, new)
        (copy / place).write_text(text)
    return set(addition.changes)


def examples(page: Path) -> dict[str, str]:
    """Return the text of each file that a page shows, by the path in its first line."""
    return dict(BLOCK.findall(page.read_text()))


def _run(addition: Addition, folder: Path) -> None:
    program = RUN.format(program=addition.program)
    subprocess.run(
        [PYTHON, "-c", program, str(folder / "project")],
        cwd=folder,
        check=True,
        capture_output=True,
        env=python_environment(),
    )
