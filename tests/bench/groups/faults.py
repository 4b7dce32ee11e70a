"""Planted faults: does the default suite find each?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from mase_hw.errors import ConfigError
from mase_hw.registry import nearest
from tests._quality import ROOT
from tests.bench.base import Benchmark, Row
from tests.bench.mutate import Mutation, copied, outcome, tests_of

SECONDS = 1800
BAR = 0.9
# All tests whose imports reach the file; a linter or a type checker does not count.
CALL = ("--touched", "HEAD", "--ignore", "tests/test_quality.py")
# By kind: file, what stands there, and the fault.
FAULTS: dict[str, list[tuple[str, str, str]]] = {
    "timing": [
        ("mase_hw/timing/alap.py", "LEAST_DEPTH = 2", "LEAST_DEPTH = 1"),
        ("mase_hw/timing/sampled.py", "at(takers) - self.motion.lag", "at(takers)"),
        ("mase_hw/timing/back_pressure.py", "forks and not self._settle()", "forks is None"),
        ("mase_hw/cells/cat.py", "self._made(arrivals) + 2", "self._made(arrivals) + 1"),
    ],
    "formats": [
        ("mase_hw/formats/fixed.py", "(rest >= half)", "(rest > half)"),
        (
            "mase_hw/formats/scaled_integer.py",
            "torch.round(values / self._parameter(self.scale, values, values.dtype))",
            "torch.trunc(values / self._parameter(self.scale, values, values.dtype))",
        ),
        ("mase_hw/formats/nvfp4.py", "LEAST_SCALE = 2.0**-6", "LEAST_SCALE = 2.0**-7"),
        ("mase_hw/formats/_block.py", "(below == 3)", "(below >= 2)"),
    ],
    "importers": [
        (
            "mase_hw/importers/onnx/ops/products.py",
            'return (less, more) if how == "SAME_UPPER"',
            'return (less, more) if how == "SAME_LOWER"',
        ),
        ("mase_hw/importers/onnx/ops/selection.py", "index + count, index", "index, index"),
        ("mase_hw/importers/torchao.py", "int(item) for item in point.", "0 for item in point."),
        ("mase_hw/importers/brevitas.py", "-size // 2 + narrow", "-size // 2"),
    ],
    "RTL": [
        ("rtl/streams/mase_stream_fifo.sv", ".DEPTH(DEPTH)", ".DEPTH(DEPTH + 1)"),
        ("rtl/arithmetic/mase_argmax.sv", "right.value > left", "right.value >= left"),
        ("rtl/memory/mase_cache.sv", "<= written_q[place]", "<= |written_q"),
        ("rtl/arithmetic/mase_reduce.sv", ".TAIL(ROW - (Tiles - 1) * LANES)", ".TAIL(LANES)"),
    ],
    "drivers": [
        ("mase_hw/deploy/driver/layout.py", "np.rint(given / step)", "np.trunc(given / step)"),
        ("mase_hw/deploy/driver/pynq_device.py", "(1 << 8) - 1", "1 << 8"),
        ("mase_hw/deploy/driver/serial_device.py", "answer.sequence == self._sequence", "True"),
        ("mase_hw/deploy/driver/control.py", "range(low, high + 1)", "range(low, high)"),
    ],
}


class Faults(Benchmark):
    """Each fault in a copy of the tree, and the tests of the first tier that its file reaches."""

    name: ClassVar[str] = "faults"
    title: ClassVar[str] = "Planted faults that the default suite finds"
    default: ClassVar[bool] = False

    def __init__(self, names: Sequence[str] = tuple(FAULTS)) -> None:
        self._names = names

    def parts(self) -> Sequence[str]:
        """Return the files, each of which has one fault."""
        return [item[0] for _, item in self._chosen]

    def only(self, names: Sequence[str]) -> Faults:
        """Return the benchmark of some kinds, or of the faults of some files."""
        known = [*FAULTS, *self.parts()]
        for name in names:
            if name not in known:
                raise ConfigError(f"no faults are called {name!r}; {nearest(name, known)}")
        return Faults(names)

    @property
    def _chosen(self) -> list[tuple[str, tuple[str, str, str]]]:
        return [
            (kind, item)
            for kind, faults in FAULTS.items()
            for item in faults
            if kind in self._names or item[0] in self._names
        ]

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield each fault with the test that finds it, and their number."""
        ends = []
        with tempfile.TemporaryDirectory(prefix="mase-hw-faults-") as folder:
            copy = copied(Path(folder))
            for kind, (name, old, new) in self._chosen:
                became, by = outcome(_mutation(name, old, new), copy, SECONDS, _calls(ROOT / name))
                ends.append(became == "seen")
                what = f"{kind}: {name}: `{old}` is `{new}`"
                yield Row(what, by if ends[-1] else f"missed ({became})", "found", ends[-1])
        if len(ends) > 1:
            share = sum(ends) / len(ends)
            yield Row("found", f"{sum(ends)} of {len(ends)}", f">={BAR:.0%}", share >= BAR)


def _calls(path: Path) -> list[Sequence[str]]:
    """Return calls of pytest: what names the file or its cell, as that is quick, then the rest."""
    if path.suffix == ".py":
        return [*tests_of(path)[:1], CALL]
    cell = path.stem.removeprefix("mase_").title().replace("_", "")
    return [["tests/cells/test_cells.py", "-k", cell], CALL]


def _mutation(name: str, old: str, new: str) -> Mutation:
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    start = text.index(old)
    return Mutation(path, text[:start].count("\n") + 1, start, start + len(old), new, old)
