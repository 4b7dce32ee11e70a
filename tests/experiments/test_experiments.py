"""Experiments: found by their files, listed, and the same table at every run."""

import csv

import pytest

from mase_hw.errors import ConfigError
from mase_hw.experiments import Experiment, Outcome, experiment, experiments, run_experiment
from mase_hw.experiments._figures import draw_best_so_far, new_figure
from mase_hw.experiments._subject import mean_and_error
from tests.flow.perceptrons import json_command

NAMES = {
    "areas", "compression-aware", "graph", "hardware-pareto", "lora", "mixed-precision",
    "perplexity", "precisions", "pruning", "ptq-qat", "samplers",
}  # fmt: skip


class Toy(Experiment):
    """Two curves."""

    name = "toy"
    title = "two curves"

    def run(self, folder, *, quick, progress):
        progress(1, 1)
        figure, (axes,) = new_figure()
        draw_best_so_far(axes, {"one": [0.1, 0.5], "two": [0.2, 0.2]}, 0.01, "toy")
        return Outcome(("curve", "best, %"), [("one", 50.0), ("two", 100 / 3)], figure, "a note")


def test_a_seed_reaches_what_is_searched_and_trained(tmp_path, monkeypatch):
    seen = []

    class StopError(Exception):
        pass

    def stop(mg, config, **options):
        seen.append((config["seed"], config["training"]["seed"]))
        raise StopError

    monkeypatch.setattr("mase_hw.experiments._subject.search", stop)
    for seed in (0, 5):
        with pytest.raises(StopError):
            run_experiment(experiment("samplers"), tmp_path, quick=True, progress=print, seed=seed)
    assert seen == [(0, 0), (5, 5)]
    assert experiment("samplers").seed == 0


def rows(path):
    with path.open() as file:
        return list(csv.reader(file))


def test_every_experiment_is_found():
    assert set(experiments()) == NAMES
    assert all(item.title for item in experiments().values())
    with pytest.raises(ConfigError, match="did you mean samplers"):
        experiment("sampler")


def test_table_and_figure_are_written_the_same_twice(tmp_path):
    contents = []
    for name in ("first", "second"):
        run_experiment(Toy(), tmp_path / name, quick=True, progress=lambda *_: None)
        contents.append(
            [(tmp_path / name / f"toy.{kind}").read_bytes() for kind in ("csv", "svg", "png")]
        )
    assert contents[0] == contents[1]
    assert rows(tmp_path / "first" / "toy.csv") == [
        ["curve", "best, %"],
        ["one", "50"],
        ["two", "33.33"],
    ]
    assert b"best accuracy so far" in contents[0][1]


def test_the_error_of_a_mean():
    assert mean_and_error([3.0]) == (3.0, 0.0)
    mean, error = mean_and_error([1.0, 2.0, 3.0])
    assert (mean, error) == (2.0, pytest.approx(3**-0.5))


def test_the_command_lists_them(monkeypatch, capsys):
    assert set(json_command(monkeypatch, capsys, "experiment")) == set(experiments())


@pytest.mark.full
@pytest.mark.parametrize("name", ["graph", "samplers"])
def test_a_quick_run_repeats(tmp_path, name):
    for folder in ("first", "second"):
        run_experiment(experiment(name), tmp_path / folder, quick=True, progress=lambda *_: None)
    assert rows(tmp_path / "first" / f"{name}.csv") == rows(tmp_path / "second" / f"{name}.csv")
