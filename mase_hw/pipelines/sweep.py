"""`sweep`: one compression for every point of a grid, ending in a table and a figure."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mase_hw._drawing import curves, save_figure
from mase_hw._kinds import Table
from mase_hw._results import result_folder, write_json, write_table
from mase_hw.data import Split
from mase_hw.errors import ConfigError, MaseError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.pipelines._steps import Progress
from mase_hw.pipelines.compression import CompressionPipeline
from mase_hw.registry import nearest
from mase_hw.search.values import Tie, parse_item

GRID = "sweep"
# What ends the name of a metric that was measured before training in the number formats.
UNTRAINED = "_quantized"


@dataclass(frozen=True)
class SweepResult:
    """Results of a sweep.

    Attributes:
        rows: one table row a point: the keys' values, what the last step measured on validation
            samples, predicted hardware, and the error of a point that failed.
        folder: where the files lie: `sweep.csv`, `sweep.json`, the figure `sweep`, and a folder
            for every point, as `CompressionPipeline` writes it.
    """

    rows: Sequence[Mapping[str, object]]
    folder: Path


def sweep(
    mg: MaseGraph,
    split: object,
    config: Mapping[str, object],
    *,
    output: str | Path,
    progress: Progress | None = None,
) -> SweepResult:
    """Compress a graph at every point of a grid; finished points are not done again.

    Args:
        mg: a captured graph.
        split: samples as `mase_hw.data.Split.read` takes them.
        config: that of a compression, and a table `sweep` of lists by key. A key is a path into
            the configuration: `steps.0.sparsity` or `seed`. `{same_as = KEY}` in place of a list
            gives it the value of another key.
        output: folder of the results.
        progress: called with (points done, points).

    Raises:
        ConfigError: for a bad configuration or a key that leads nowhere.
        MaseError: when every point failed.
    """
    grid, ties = _grid(config)
    folder = Path(output)
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    points = [{**point, **{key: point[other] for key, other in ties.items()}} for point in points]
    pipelines = [CompressionPipeline.from_config(_at(config, point)) for point in points]
    for pipeline in pipelines:
        pipeline.settled(mg)
    split = Split.read(split)
    names = [f"sweep.{kind}" for kind in ("csv", "json", "png", "svg")]
    with result_folder(folder, names):
        rows = []
        for number, (point, pipeline) in enumerate(zip(points, pipelines, strict=True)):
            name = "_".join(f"{key.rpartition('.')[2]}-{value}" for key, value in point.items())
            rows.append(
                {**point, **_measure(pipeline, mg, split, folder / re.sub(r"[^\w.-]", "-", name))}
            )
            if progress:
                progress(number + 1, len(points))
        write_table(folder / "sweep.csv", rows)
        write_json(folder / "sweep.json", rows)
        _draw(folder, list(grid), rows, pipelines[0].task.metric.name)
        if all("error" in row for row in rows):
            raise MaseError(f"every point of the sweep failed; the last: {rows[-1]['error']}")
    return SweepResult(rows, folder)


def _measure(
    pipeline: CompressionPipeline, mg: MaseGraph, split: Split, folder: Path
) -> dict[str, object]:
    try:
        result = pipeline(mg, split, output=folder)
    except MaseError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    last = {key: value for key, value in result.rows[-1].items() if key != "step"}
    untrained = {
        f"{name}{UNTRAINED}": row[name]
        for row in result.rows[:-1]
        if row["step"] == "quantize"
        for name in [pipeline.task.metric.name]
    }
    return {**last, **untrained, **result.hardware, "folder": folder.name}


def _grid(config: Mapping[str, object]) -> tuple[dict[str, list[object]], dict[str, str]]:
    table = config.get(GRID)
    if not isinstance(table, Mapping) or not table:
        raise ConfigError("sweep: the table `sweep` is missing or empty; give lists by key")
    ties = {
        str(key): item.key
        for key, values in table.items()
        if isinstance(values, Mapping) and isinstance(item := parse_item(key, values), Tie)
    }
    grid = {str(key): values for key, values in table.items() if key not in ties}
    for key, values in grid.items():
        if not isinstance(values, list | tuple) or not values:
            raise ConfigError(f"sweep: {key} is {values!r}; allowed: a list of values, or same_as")
    for key, other in ties.items():
        if other not in grid:
            raise ConfigError(f"sweep: {key} is the same as {other!r}; {nearest(other, grid)}")
    return {key: list(values) for key, values in grid.items()}, ties


def _at(config: Mapping[str, object], point: Mapping[str, object]) -> dict[str, object]:
    point_config = copy.deepcopy({key: value for key, value in config.items() if key != GRID})
    for key, value in point.items():
        *path, leaf = key.split(".")
        place: Any = point_config
        for part in path:
            try:
                place = place[int(part) if isinstance(place, list) else part]
            except (KeyError, IndexError, ValueError, TypeError) as error:
                words = ", ".join(map(str, place)) if isinstance(place, Mapping) else repr(place)
                words = f"a list of {len(place)}" if isinstance(place, list) else words
                raise ConfigError(
                    f"sweep: {key} leads nowhere: there is no {part!r} in {words}"
                ) from error
        if not isinstance(place, dict):
            raise ConfigError(f"sweep: {key} leads to {place!r}, which holds no keys")
        place[leaf] = value
    return point_config


def _draw(folder: Path, keys: Sequence[str], rows: Sequence[Table], name: str) -> None:
    """Draw a metric against the first key, one curve for every value of the others.

    What is trained in its number formats has a second curve, of the formats alone.
    """
    series: dict[str, list[tuple[object, float, float]]] = defaultdict(list)
    trained = any(f"{name}{UNTRAINED}" in row for row in rows)
    curves_of = {name: "QAT", f"{name}{UNTRAINED}": "PTQ"} if trained else {name: ""}
    for row in rows:
        for metric, word in curves_of.items():
            if metric in row:
                others = [f"{_short(key)} {json.dumps(row[key])}" for key in keys[1:]]
                label = ", ".join([*others, *([word] if word else [])])
                point = row[keys[0]], row[metric], row.get("standard_error", 0.0)
                series[label].append(point)
    if series:
        title = f"{name.replace('_', ' ')} (validation)"
        save_figure(folder / "sweep", curves(series, _short(keys[0]), title))


def _short(key: str) -> str:
    """Return the last word of a key: `steps.1.config.default.config.weight_width` is long."""
    return key.rpartition(".")[2].replace("_", " ")
