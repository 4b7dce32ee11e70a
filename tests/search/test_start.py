"""A search that begins with known number formats."""

from pathlib import Path

import pytest
import torch
from torch import nn

from mase_hw import MaseGraph, trace
from mase_hw._config_file import write_config
from mase_hw.errors import ConfigError
from mase_hw.pipelines._steps import parse_steps
from mase_hw.search import search

INPUTS = torch.randn(60, 6, generator=torch.Generator().manual_seed(0))
WIDTHS = {"data_in_width": 7, "data_in_frac_width": 4, "weight_width": 5, "bias_width": 9}
FOUND = {
    "by": ["name"],
    "linear_0": {"config": {"name": "fixed", **WIDTHS}},
    "linear_2": {"config": {"name": "fixed", **WIDTHS, "weight_width": 6}},
}


def graph() -> MaseGraph:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    return trace(model, INPUTS[:16], name="tiny")


def found(tmp_path: Path, **tables: object) -> dict[int, dict[str, object]]:
    seen: dict[int, dict[str, object]] = {}

    def objective(_: MaseGraph, trial: object) -> float:
        seen[trial.number] = dict(trial.params)  # type: ignore[attr-defined]
        return float(sum(trial.params.values()))  # type: ignore[attr-defined]

    path = write_config(tmp_path / "formats.toml", {"quantize": FOUND})
    config = {"trials": 4, "start": str(path), **tables}
    result = search(
        graph(), config, output=tmp_path / "s", objective=objective, directions=["minimize"]
    )
    assert result.trials == 4
    return seen


def test_the_first_trial_is_what_was_found_and_others_are_up_to_two_bits_narrower(
    tmp_path: Path,
) -> None:
    seen = found(tmp_path)
    assert seen[0]["linear_0.weight_width"] == 5
    assert seen[0]["linear_2.weight_width"] == 6
    assert seen[0]["linear_2.bias_width"] == 9
    assert not any("frac" in name for name in seen[0])
    for params in seen.values():
        assert all(seen[0][name] - 2 <= value <= seen[0][name] for name, value in params.items())  # type: ignore[operator]


def test_the_nearest_value_of_a_given_space_is_taken(tmp_path: Path) -> None:
    entry = {"name": "fixed", "data_in_width": [4, 6, 12], "weight_width": {"low": 6, "high": 8}}
    space = {"quantize": {"by": "type", "linear": {"config": {**entry, "bias_width": 8}}}}
    seen = found(tmp_path, space=space)
    assert seen[0]["linear_0.data_in_width"] == 6
    assert seen[0]["linear_0.weight_width"] == 6


def test_a_start_that_is_none_is_refused(tmp_path: Path) -> None:
    for start, message in (
        (3, "start is 3"),
        (str(tmp_path / "no.toml"), "cannot be read"),
        ({"by": ["name"], "linear_9": {"config": {}}}, "linear_9"),
    ):
        with pytest.raises(ConfigError, match=message):
            search(graph(), {"start": start}, output=tmp_path / "s", objective=lambda *_: 0.0)
    path = write_config(tmp_path / "other.toml", {"parallelism": {"default": 2}})
    with pytest.raises(ConfigError, match="no number formats"):
        search(graph(), {"start": str(path)}, output=tmp_path / "s")


def test_a_compression_reads_the_file_of_formats(tmp_path: Path) -> None:
    path = write_config(tmp_path / "formats.toml", {"quantize": FOUND})
    ((_, arguments),) = parse_steps([{"pass": "quantize", "config": str(path)}])
    assert arguments["config"] == FOUND
    with pytest.raises(ConfigError, match="cannot be read"):
        parse_steps([{"pass": "quantize", "config": "no.toml"}])
