"""Experiments: found by their files, listed, and the same table at every run."""

import csv
from typing import ClassVar

import pytest

from mase_hw.errors import ConfigError
from mase_hw.experiments import Experiment, Outcome, experiment, experiments, run_experiment
from mase_hw.experiments._figures import draw_best_so_far, new_figure
from mase_hw.experiments._subject import mean_and_error
from mase_hw.experiments.architectures import AGAIN, COMPRESSED, PLAIN, Architectures
from mase_hw.experiments.compression import knee
from tests.flow.perceptrons import json_command

NAMES = {
    "areas", "compression-aware", "epochs", "hardware-pareto", "layer-formats", "lora",
    "mixed-precision", "perplexity", "precisions", "pruning", "ptq-qat", "samplers",
}  # fmt: skip


class Toy(Experiment):
    """Two curves."""

    name = "toy"
    title = "two curves"
    settings: ClassVar = {"trials": 2, "widths": [4, 8]}
    quick: ClassVar = {"trials": 1}

    def run(self, folder, size, progress):
        progress(1, 1)
        figure, (axes,) = new_figure()
        draw_best_so_far(axes, {"one": [0.1, 0.5], "two": [0.2, 0.2]}, 0.01, "toy")
        return Outcome(("curve", "best, %"), [("one", 50.0), ("two", 100 / 3)], figure, f"{size}")


def test_a_seed_reaches_what_is_searched_and_trained(tmp_path, monkeypatch):
    seen = []

    class StopError(Exception):
        pass

    def stop(mg, config, **options):
        seen.append((config["seed"], config["finetuning"]["seed"]))
        raise StopError

    monkeypatch.setattr("mase_hw.experiments._subject.search", stop)
    for seed in (0, 5):
        with pytest.raises(StopError):
            run_experiment(experiment("precisions"), tmp_path, seed=seed)
    assert seen == [(0, 0), (5, 5)]
    assert experiment("precisions").seed == 0


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


def test_sizes_are_the_default_those_of_a_short_run_or_given(tmp_path):
    for number, (keywords, sizes) in enumerate(
        (
            ({}, {"trials": 2, "widths": [4, 8]}),
            ({"quick": True}, {"trials": 1, "widths": [4, 8]}),
            ({"quick": True, "settings": {"widths": [5]}}, {"trials": 1, "widths": [5]}),
        )
    ):
        outcome = run_experiment(Toy(), tmp_path / str(number), **keywords)
        assert outcome.note.startswith(str(sizes))
        assert f"trials {sizes['trials']}, widths" in outcome.figure.get_supxlabel()
    with pytest.raises(ConfigError, match="did you mean trials"):
        run_experiment(Toy(), tmp_path, settings={"trails": 3})
    with pytest.raises(ConfigError, match="trials is 'few'; allowed: as 2"):
        run_experiment(Toy(), tmp_path, settings={"trials": "few"})


def test_the_knee_is_the_least_width_from_which_on_accuracy_stays():
    assert knee([4, 6, 8, 16], [0.5, 0.7, 0.71, 0.7], 0.69) == 6
    assert knee([4, 6, 8, 16], [0.7, 0.5, 0.71, 0.7], 0.69) == 8
    assert knee([4, 6], [0.6, 0.5], 0.7) == 4


def test_an_architecture_is_trained_once(monkeypatch):
    monkeypatch.setattr(Architectures, "__post_init__", lambda self: None)
    trained = []

    def compress(self, arguments):
        trained.append(arguments)
        return {PLAIN: len(arguments["query"]) / 10, COMPRESSED: 0.5, AGAIN: 0.7}

    def train(self, arguments):
        trained.append(arguments)
        return arguments

    monkeypatch.setattr(Architectures, "_compressed", compress)
    monkeypatch.setattr(Architectures, "_trained", train)
    monkeypatch.setattr(Architectures, "_score", lambda self, made: len(made["query"]) / 10)
    found = Architectures({"trials": 60}, 0)
    for sampler in ("random", "grid", "tpe"):
        curve, best = found.search(sampler, AGAIN, lambda: None)
        assert len(curve) == 60
        assert best[:2] == (70.0, 1)
    curve, best = found.search("tpe", PLAIN, lambda: None)
    assert "query identity" in best[2]
    assert curve == sorted(curve)
    assert len(trained) == len({str(item) for item in trained}) <= 128


def test_the_error_of_a_mean():
    assert mean_and_error([3.0]) == (3.0, 0.0)
    mean, error = mean_and_error([1.0, 2.0, 3.0])
    assert (mean, error) == (2.0, pytest.approx(3**-0.5))


def test_the_command_lists_them(monkeypatch, capsys):
    assert set(json_command(monkeypatch, capsys, "experiment")) == set(experiments())


@pytest.mark.full
def test_a_run_repeats(tmp_path):
    name, sizes = "mixed-precision", {"trials": 2, "validation": 50}
    for folder in ("first", "second"):
        run_experiment(experiment(name), tmp_path / folder, settings=sizes)
    assert rows(tmp_path / "first" / f"{name}.csv") == rows(tmp_path / "second" / f"{name}.csv")
