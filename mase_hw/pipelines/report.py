"""The report of a compression: CSV, JSON, and figures as PNG and SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from mase_hw._drawing import bars, curves, save_figure, spans
from mase_hw._kinds import Table
from mase_hw._results import write_json, write_table
from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common
from mase_hw.passes.formats.calibrate import observe
from mase_hw.passes.formats.report_quantization import (
    quantized_nodes,
    report_quantization_analysis_pass,
)
from mase_hw.training.inputs import Inputs

BEYOND = 3e38
ROW_INCHES, LEAST_INCHES = 0.22, 2.5


def files(metric: str) -> list[str]:
    """Return the names of all files of a report."""
    figures = [f"{name}.{kind}" for name in (metric, "noise", "ranges") for kind in ("png", "svg")]
    return ["steps.csv", "layers.csv", "report.json", *figures]


def write_report(folder: Path, description: Table, mg: MaseGraph | None, inputs: Inputs) -> None:
    """Write the report of a compression.

    Files: `steps.csv`, `report.json`, a figure of the task's metric such as `accuracy`; of a
    quantized graph `layers.csv` and the figures `noise` and `ranges`.

    The description has `steps`, a list of rows, and `test` with the name of the metric. Layers of
    the quantized graph, None when it has no formats, are compared on the inputs.
    """
    rows = description["steps"]
    write_table(folder / "steps.csv", rows)
    metric = str(description["test"]["metric"])
    points = [
        (f"{number} {row['step']}", row[metric], row.get("standard_error", 0.0))
        for number, row in enumerate(rows)
    ]
    title = f"{metric.replace('_', ' ')} (validation)"
    save_figure(folder / metric, curves({"": points}, "step", title))
    entry = dict(description)
    if mg is not None:
        _, info = report_quantization_analysis_pass(mg, {"data": inputs})
        entry |= info
        write_table(folder / "layers.csv", [_flat(layer) for layer in info["layers"]])
        _draw_noise(folder, info["layers"])
        _draw_ranges(folder, mg, inputs)
    write_json(folder / "report.json", entry)


def _flat(layer: Table) -> dict[str, object]:
    rest = {key: value for key, value in layer.items() if key not in ("formats", "saturated")}
    rest |= {f"format_{name}": text for name, text in layer["formats"].items()}
    return rest | {f"saturated_{name}": share for name, share in layer["saturated"].items()}


def _height(rows: int) -> float:
    return max(LEAST_INCHES, 1.2 + ROW_INCHES * rows)


def _draw_noise(folder: Path, layers: Sequence[Table]) -> None:
    def decibels(key: str) -> dict[str, float]:
        # What lost nothing has no bar.
        return {layer["name"]: layer[key] if math.isfinite(layer[key]) else 0.0 for layer in layers}

    groups = {
        "SQNR of the layer's result": decibels("sqnr_db"),
        "SQNR of the output, this layer alone": decibels("sensitivity_db"),
    }
    if layers:
        save_figure(folder / "noise", bars(groups, "decibels"), height=_height(2 * len(layers)))


def _draw_ranges(folder: Path, mg: MaseGraph, inputs: object) -> None:
    seen = observe(mg, [inputs])
    rows = []
    for node in quantized_nodes(mg):
        for name, spec in {**common(node).operands, **common(node).results}.items():
            sample = seen[node.name].get(name)
            if spec.format is not None and sample is not None:
                observed = (sample.minimum, sample.maximum)
                rows.append((f"{node.name}.{name}", observed, limits(spec.format)))
    if rows:
        save_figure(folder / "ranges", spans(rows, "value"), height=_height(len(rows)))


def limits(number_format: Format) -> tuple[float, float]:
    """Return the least and the greatest value to which a format saturates."""
    ends = [
        float(number_format.round_values(torch.full((1,), end, dtype=torch.float64)))
        for end in (-BEYOND, BEYOND)
    ]
    return min(ends), max(ends)
