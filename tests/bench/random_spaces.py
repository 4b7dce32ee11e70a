"""Searches of random spaces: what their best configurations emit.

A space has random formats, widths, fractions and parallelism, legal each, whether they go together
or not. What a search does not refuse, and of which it does not say that there is no hardware, has
to be emitted from the file that it wrote.
"""

from __future__ import annotations

import random
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw._kinds import Record
from mase_hw.errors import FormatError, MaseError, SearchError
from tests.bench.base import Row

if TYPE_CHECKING:
    from mase_hw.formats import Format
    from mase_hw.graph import MaseGraph

TRIALS = 2
EMITTED, REFUSED, LACKING = "emitted", "all trials refused", "said to have no hardware"
FAILED = "not emitted"
WIDTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
FRACTIONS = (-2, 0, 2, 4, 8, 16)
BLOCKS = (2, 4, 8, 16)
BEATS = (1, 2, 3, 4, 6, 8, 16)


def random_space_rows(count: int) -> list[Row]:
    """Return what became of the best configurations of random spaces."""
    import torch

    torch.manual_seed(0)
    subjects = [_perceptron(), _image()]
    found: Counter[str] = Counter()
    wrong = []
    for seed in range(count):
        outcome, reason = outcome_of(subjects[seed % len(subjects)], random_space(seed))
        found[outcome] += 1
        if outcome == FAILED:
            wrong.append(f"{seed}: {reason}")
    parts = ", ".join(f"{found[name]} {name}" for name in (EMITTED, LACKING, REFUSED))
    said = count - found[FAILED]
    row = Row(
        f"best configurations of {count} random spaces that emit, or the search said beforehand",
        "; ".join([f"{said} of {count}: {parts}", *wrong[:3]]),
        f"{count} of {count}",
        said == count,
    )
    return [row]


def random_space(seed: int) -> Record:
    """Return the configuration of a search."""
    from mase_hw.formats import formats

    chance = random.Random(seed)
    names = [name for name in sorted(formats()) if name != "none"]
    family = chance.choice(["fixed", "mxint", chance.choice(names)])
    entry: Record = {"name": family}
    fields = formats()[family].field_names()
    for operand in ("data_in", "weight", "bias"):
        for field, choices in (
            ("width", WIDTHS),
            ("frac_width", FRACTIONS),
            ("block_size", BLOCKS),
        ):
            if field in fields and chance.random() < 0.7:
                legal = [value for value in choices if _is_legal(formats()[family], field, value)]
                count = min(len(legal), chance.randint(1, 3))
                entry[f"{operand}_{field}"] = chance.sample(legal, count)
    if chance.random() < 0.3:
        entry["name"] = [family, "fixed"] if family != "fixed" else [family, "mxint"]
    by = chance.choice(["type", "default"])
    key = "linear" if by == "type" else "default"
    quantize: Record = {"by": "type", key: {"config": entry}}
    if chance.random() < 0.5:
        quantize[key]["shared"] = True
    if by == "type":
        quantize["default"] = {"config": {"name": "fixed", "data_in_width": 8}}
    space: Record = {"quantize": quantize}
    is_open = any(isinstance(value, list) for value in entry.values())
    if chance.random() < 0.7 or not is_open:
        space["parallelism"] = {"default": chance.sample(BEATS, 2)}
    if chance.random() < 0.2:
        space["prune"] = {"sparsity": [0.25, 0.5]}
    objectives = chance.choice([["average_bits"], ["average_bits", "interval_cycles"]])
    return {
        "trials": TRIALS,
        "sampler": "random",
        "seed": seed,
        "objectives": objectives,
        "space": space,
    }


def _is_legal(cls: type[Format], field: str, value: int) -> bool:
    """Return whether a format takes a value; values that do not go together are left in."""
    try:
        cls.fit(-1.0, 1.0, **{field: value})
    except FormatError:
        return False
    return True


def outcome_of(mg: MaseGraph, config: dict[str, object]) -> tuple[str, str]:
    """Return what became of a search's best configuration, and why."""
    import mase_hw

    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as name:
        folder = Path(name)
        try:
            result = mase_hw.search(mg, config, output=folder)
        except SearchError as error:
            return REFUSED, str(error)
        best = result.best[0]
        if best.without_hardware:
            return LACKING, best.without_hardware[0]
        stem = "best" if (folder / "best.toml").exists() else "front_0"
        tables = tomllib.loads((folder / f"{stem}.toml").read_text())
        weights = folder / f"{stem}.mase"
        try:
            graph = mase_hw.MaseGraph.load(weights) if weights.exists() else mg
            mase_hw.emit_verilog(
                graph,
                output=folder / "rtl",
                config=tables["quantize"],
                parallelism=tables.get("parallelism", 1),
            )
        except MaseError as error:
            return FAILED, f"{type(error).__name__}: {error}"
    return EMITTED, ""


def _perceptron() -> MaseGraph:
    import torch
    from torch import nn

    import mase_hw

    model = nn.Sequential(
        nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 3)
    )
    return mase_hw.trace(model, torch.randn(16, 6), name="perceptron")


def _image() -> MaseGraph:
    import torch
    from torch import nn

    import mase_hw

    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
    )
    return mase_hw.trace(model, torch.randn(8, 1, 4, 4), name="image")
