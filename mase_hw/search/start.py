"""Where a search begins: chosen number formats, and a space around them.

The first trial proposes what a configuration says, as near as the space has it. Without a space of
formats, each width of the configuration may be up to `NARROWER` bits less, and fractions are
fitted anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torch.fx import Node

from mase_hw._config_file import read_formats
from mase_hw._kinds import Table
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.passes.configuration import Configuration
from mase_hw.search.space import Space
from mase_hw.search.values import Dimension, Value, dimensions_of

if TYPE_CHECKING:
    from optuna import Study

NARROWER, LEAST = 2, 2
WIDTH, FRACTION = "_width", "_frac_width"


def with_start(config: Table) -> Mapping[str, object]:
    """Return a configuration whose `start` is read, and which has a space of formats around it.

    Raises:
        ConfigError: for a start that is no configuration, or a file without number formats.
    """
    start = config.get("start")
    if start is None:
        return config
    if not isinstance(start, str | Path | Mapping):
        raise ConfigError(f"search: start is {start!r}; allowed: number formats, or their file")
    formats = start if isinstance(start, Mapping) else read_formats(start)
    space = dict(config.get("space", {}))
    space.setdefault("quantize", around(formats))
    return {**config, "start": formats, "space": space}


def begin(study: Study, mg: MaseGraph, space: Space, config: Table) -> None:
    """Let a study without trials begin with number formats, where a search has a `start`.

    Args:
        study: the study.
        mg: the captured model.
        space: what is searched.
        config: of the search.
    """
    start = config.get("start")
    if start is not None and not study.get_trials(deepcopy=False):
        graph = canonicalize(mg, Space.formats(config["space"]))
        study.enqueue_trial(first_parameters(graph, space, start))


def around(start: Table) -> dict[str, object]:
    """Return the space of formats around a configuration."""
    return {
        key: {**entry, "config": _narrower(entry["config"])}
        if isinstance(entry, Mapping) and isinstance(entry.get("config"), Mapping)
        else entry
        for key, entry in start.items()
    }


def _narrower(entry: Table) -> dict[str, object]:
    narrower: dict[str, object] = {}
    for key, value in entry.items():
        if key.endswith(FRACTION):
            continue
        is_width = key.endswith(WIDTH) and isinstance(value, int) and value > LEAST
        narrower[key] = {"low": max(LEAST, value - NARROWER), "high": value} if is_width else value
    return narrower


def first_parameters(mg: MaseGraph, space: Space, start: Table) -> dict[str, Value]:
    """Proposals of the first trial, by dimension; those that the start does not name are left out.

    Args:
        mg: the canonical graph of the space.
        space: what is searched.
        start: a configuration of number formats.

    Raises:
        ConfigError: for a start with a name that matches no node.
    """
    nodes: dict[str, Node] = {node.name: node for node in mg.nodes if node.op == "call_function"}
    config = Configuration.parse(start, list(nodes))
    parameters: dict[str, Value] = {}
    for name, entry in space.quantize.items():
        wanted = config.for_node(name, common(nodes[name]).operator)
        for key, item in entry.items():
            for dimension in dimensions_of(item):
                value = _nearest(dimension, wanted.get(key))
                if value is not None:
                    parameters.setdefault(dimension.name, value)
    return parameters


def _nearest(dimension: Dimension, wanted: object) -> Value | None:
    values = dimension.values
    if values is not None and wanted in values:
        return values[values.index(wanted)]
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return None
    if values is None:
        return min(max(float(wanted), dimension.low), dimension.high)
    numbers = [item for item in values if isinstance(item, int | float) and type(item) is not bool]
    return min(numbers, key=lambda item: abs(item - wanted), default=None)
