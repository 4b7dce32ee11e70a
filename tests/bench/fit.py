"""Yosys' counts of single cells: each a module of its own in one top, many at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from mase_hw.cells import Cell, Value, cells
from mase_hw.cells.stream_fork import StreamFork
from mase_hw.emit.modules import module_texts
from mase_hw.formats import Encoding
from mase_hw.hardware import estimate
from mase_hw.hardware.synth import synthesize
from tests.bench.least_squares import Observation, fitted

DATA = Path(__file__).with_name("fit.json")
BATCH = 4

Progress = Callable[[str], None]


def fit_cells() -> Iterator[tuple[str, Cell]]:
    """Yield the cells that are counted, with names: samples, and those of small designs."""
    from tests.bench.fit_designs import fit_designs

    for cls in cells():
        for number, cell in enumerate(cls.samples()):
            yield f"{cls.__name__}, sample {number}", cell
    for number, design in enumerate(fit_designs()):
        for cell in design.cells():
            yield f"{type(cell).__name__}, design {number}", cell


def refit(progress: Progress | None = None) -> dict[str, float]:
    """Count cells that are new or changed, fit, and write both files; return the coefficients."""
    say = progress or (lambda _: None)
    named: dict[str, tuple[str, Cell]] = {}
    for name, cell in fit_cells():
        named.setdefault(key_of(cell), (name, cell))
    known, sources = counted(), {key: source_of(cell) for key, (_, cell) in named.items()}
    todo = [key for key in named if known.get(key, {}).get("source") != sources[key]]
    for start in range(0, len(todo), BATCH):
        part = todo[start : start + BATCH]
        say(f"{start + len(part)} of {len(todo)} cells: {named[part[0]][0]}")
        for key, resources in count({key: named[key][1] for key in part}).items():
            known[key] = {"cell": named[key][0], "source": sources[key], **resources}
        _write(DATA, {key: known[key] for key in named if key in known})
    observations = [
        Observation(estimate.terms_of(cell.components), float(known[key]["lut"]))
        for key, (_, cell) in named.items()
    ]
    found = fitted(observations)
    _write(estimate.COEFFICIENTS, found)
    estimate.coefficients.cache_clear()
    return found


def counted() -> dict[str, dict[str, float | str]]:
    """Return what was counted, by the keys of cells."""
    if not DATA.is_file():
        return {}
    found: dict[str, dict[str, float | str]] = json.loads(DATA.read_text())
    return found


def _write(path: Path, found: Mapping[str, object]) -> None:
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def key_of(cell: Cell) -> str:
    """Return a short text that says which module, parameters, ports and words a cell has."""
    ports = [
        (name, port.fields, port.beats > 0, port.optional)
        for name, port in {**cell.inputs, **cell.outputs}.items()
    ]
    words = [(name, image.words) for name, (_, image) in cell.images.items()]
    text = f"{cell.module} {_parameters(cell)} {ports} {words}"
    return sha256(text.encode()).hexdigest()[:16]


def source_of(cell: Cell) -> str:
    """Return a short text that changes with the modules of a cell, but not with their comments
    or with what only proofs read."""
    texts = list(module_texts([cell]).values())
    texts = [re.sub(r"\(\* mase_\w+ = \"\w+\" \*\)\s*", "", text) for text in texts]
    plain = "\n".join(re.sub(r"//[^\n]*|\s+", " ", text) for text in texts)
    return sha256(plain.encode()).hexdigest()[:16]


def count(named: Mapping[str, Cell]) -> dict[str, dict[str, float]]:
    """Return what Yosys counts of cells, each synthesized by itself."""
    names = {f"cell_{number}": key for number, key in enumerate(named)}
    with TemporaryDirectory(prefix="mase_hw_fit_") as scratch:
        folder = Path(scratch)
        (folder / "mem").mkdir()
        ports = ["input logic clk", "input logic rst"]
        bodies = []
        for name, key in names.items():
            declared, body = _instance(name, named[key], folder)
            ports += declared
            bodies.append(body)
        text = ",\n  ".join(ports)
        (folder / "top.sv").write_text(f"module top (\n  {text}\n);\n{''.join(bodies)}endmodule\n")
        files = []
        for module, source in module_texts(named.values()).items():
            (folder / f"{module}.sv").write_text(source)
            files.append(f"{module}.sv")
        files.append("top.sv")
        (folder / "files.f").write_text("\n".join(files) + "\n")
        entries = [{"name": name, "node": name} for name in names]
        (folder / "design.json").write_text(json.dumps({"instances": entries}))
        report = synthesize(folder)
    return {key: dict(report.nodes[name].to_dict()) for name, key in names.items()}


def _parameters(cell: Cell) -> dict[str, str]:
    return {name: _expression(value) for name, value in cell.parameters.items()}


def _expression(value: Value) -> str:
    if isinstance(value, Encoding):
        return value.expression
    if isinstance(value, str):
        return value
    return f"mase_pkg::{value.value}" if isinstance(value, Enum) else str(int(value))


def _instance(name: str, cell: Cell, folder: Path) -> tuple[list[str], str]:
    """Return the ports of the top for a cell, and its instance; write its memories."""
    ports: list[str] = []
    nets = [".clk(clk)", ".rst(rst)"]
    for given, enters in ((cell.inputs, True), (cell.outputs, False)):
        into, out = ("input", "output") if enters else ("output", "input")
        for port, item in given.items():
            signals = [
                (part.suffix, part.lanes * part.width_bits)
                for part in (() if item.packed else item.fields)
            ]
            if item.packed:
                signals = [("", item.width_bits)]
            tie = "'0" if enters else ""
            nets += [f".{port}{suffix}({tie})" for suffix in item.optional]
            if not item.beats:
                nets += [f".{port}{suffix}('0)" for suffix, _ in signals]
                nets += [f".{port}_valid(1'b1)", f".{port}_ready()"]
                continue
            copies = cell.count if isinstance(cell, StreamFork) and not enters else 1
            handshake = [("_valid", into, copies), ("_ready", out, copies)]
            for suffix, way, bits in [*((s, into, b) for s, b in signals), *handshake]:
                ports.append(f"{way} logic [{bits - 1}:0] {name}_{port}{suffix}")
                nets.append(f".{port}{suffix}({name}_{port}{suffix})")
    values = _parameters(cell)
    for parameter, (part, image) in cell.images.items():
        file = folder / "mem" / f"{name}_{part}.mem"
        file.write_text("".join(f"{word:x}\n" for word in image.words))
        values[parameter] = f'"mem/{file.name}"'
    given_values = ", ".join(f".{key}({value})" for key, value in values.items())
    return ports, f"  {cell.module} #({given_values}) {name} (\n    {', '.join(nets)}\n  );\n"
