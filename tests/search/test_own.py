"""A search with one's own objective, callbacks, data and weights."""

import math

import numpy as np
import optuna
import pytest
import torch
from torch import nn

from mase_hw._config_file import write_config
from mase_hw.cli._data import load_examples, load_split
from mase_hw.data import Split
from mase_hw.errors import ConfigError, DataError, SearchError
from mase_hw.graph import MaseGraph, trace
from mase_hw.pipelines._steps import parse_steps
from mase_hw.search import search
from tests.flow.perceptrons import json_command
from tests.search import problems
from tests.search.problems import INPUTS, by_type, network, stored

SPACE = by_type(weight_width=[2, 4, 8])


def run(folder, objective, trials=6, **options):
    config = {"trials": trials, "sampler": "grid", "space": SPACE}
    return problems.run(folder, config, samples=None, objective=objective, **options)


def test_an_objective_of_ones_own_sees_the_quantized_graph(tmp_path):
    model = network(6, 8, 3)
    seen = []

    def distance(quantized, trial):
        assert isinstance(quantized, MaseGraph)
        assert quantized.is_quantized
        with torch.no_grad():
            found = float((quantized(INPUTS) - model(INPUTS)).abs().mean())
        seen.append((trial.number, found))
        return found

    result = run(tmp_path, distance, directions="minimize")
    (best,) = result.best
    assert dict(seen)[best.number] == min(value for _, value in seen) == best.metrics["objective"]
    assert best.config["linear_0"]["config"]["weight_width"] == 8


@pytest.mark.full
def test_several_numbers_make_a_front_and_callbacks_are_called(tmp_path):
    called = []

    def both(quantized, trial):
        bits = sum(trial.params.values())
        with torch.no_grad():
            return quantized(INPUTS).std(), bits

    result = run(
        tmp_path,
        both,
        trials=9,
        directions=("maximize", "minimize"),
        callbacks=[lambda study, trial: called.append(trial.number)],
    )
    assert called == list(range(9))
    assert min(item.metrics["objective_1"] for item in result.best) == 4
    assert {"objective_0", "objective_1"} <= set(result.best[0].metrics)


@pytest.mark.full
def test_an_objective_may_prune(tmp_path):
    def impatient(quantized, trial):
        trial.report(1.0, 0)
        if trial.number % 2:
            raise optuna.TrialPruned
        return 1.0

    assert run(tmp_path, impatient).failed == {}
    states = [trial.state.name for trial in stored(tmp_path)]
    assert states == ["COMPLETE", "PRUNED"] * 3


def test_a_bad_objective_fails_its_trial_alone(tmp_path):
    answers = iter([1.0, math.nan, "good", (1.0, 2.0), ValueError("no"), 0.5])

    def moody(quantized, trial):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    result = run(tmp_path, moody)
    assert result.best[0].metrics["objective"] == 1.0
    reasons = [result.failed[number] for number in sorted(result.failed)]
    assert sorted(result.failed) == [1, 2, 3, 4]
    assert "returned nan" in reasons[0]
    assert "returned 'good'" in reasons[1]
    assert "returned (1.0, 2.0); expected are 1" in reasons[2]
    assert "ValueError: no" in reasons[3]
    with pytest.raises(SearchError, match="all 6 trials failed"):
        run(tmp_path / "none", lambda quantized, trial: None)


def test_functions_need_this_process_and_directions_are_checked(tmp_path):
    with pytest.raises(ConfigError, match="one worker"):
        run(tmp_path, lambda quantized, trial: 1.0, workers=2)
    with pytest.raises(ConfigError, match="a direction is 'up'"):
        run(tmp_path, lambda quantized, trial: 1.0, directions=["up"])
    config = {"space": SPACE, "objectives": ["average_bits"]}
    with pytest.raises(ConfigError, match="or one of your own"):
        problems.run(tmp_path, config, objective=lambda quantized, trial: 1.0)


FACTORY = """
import numpy as np
import torch
from torch import nn

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), (torch.randn(4, 6),)

def data():
    labels = np.arange(150) % 3
    return np.eye(6)[labels] + 0.1 * np.random.default_rng(0).normal(size=(150, 6)), labels

def table():
    inputs, labels = data()
    return {"train_inputs": inputs, "train_labels": labels, "test_inputs": inputs[:30],
            "test_labels": labels[:30]}

def wrong():
    return 1, 2, 3

def uneven():
    return np.zeros((4, 6)), np.zeros(3)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_search_and_compress_take_data_and_weights_alike(here, monkeypatch, capsys):
    state = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).state_dict()
    given = {key: torch.zeros_like(value) for key, value in state.items()}
    given["2.bias"] = torch.tensor([0.0, 1.0, 0.0])
    torch.save(given, here / "weights.pt")
    inputs, labels = torch.randn(90, 6), torch.arange(90) % 3
    np.savez(here / "data.npz", inputs=inputs.numpy(), labels=labels.numpy())
    (here / "search.toml").write_text(
        'trials = 2\nsampler = "random"\n[space.quantize.default.config]\nname = "fixed"\n'
        "data_in_width = 8\nweight_width = [4, 6]\nbias_width = 8\n"
    )
    (here / "compress.toml").write_text('[[steps]]\npass = "train"\nepochs = 1\n')
    (here / "sweep.toml").write_text(
        '[sweep]\nseed = [0, 1]\n[[steps]]\npass = "train"\nepochs = 1\n'
    )
    for data in ("data.npz", "net.py:data"):
        common = ("net.py:net", "--data", data, "--weights", "weights.pt", "--config")
        searched, squeezed, swept = (
            json_command(monkeypatch, capsys, name, *common, f"{name}.toml", "-o", name + data[:3])
            for name in ("search", "compress", "sweep")
        )
        # The given weights say class 1 of everything.
        assert searched["best"][0]["accuracy"] == pytest.approx(1 / 3, abs=0.02)
        assert squeezed["steps"][0]["accuracy"] == pytest.approx(1 / 3, abs=0.02)
        assert len(swept["points"]) == 2


def test_samples_of_every_form_are_split(here):
    halves, table = load_split("net.py:data"), load_split("net.py:table")
    assert isinstance(halves, Split)
    counts = [
        len(part) for part in (halves.train_labels, halves.validation_labels, halves.test_labels)
    ]
    assert counts == [96, 24, 30]
    assert halves.train_inputs.dtype == torch.float32
    assert [len(table.train_labels), len(table.validation_labels), len(table.test_labels)] == [
        120, 30, 30,
    ]  # fmt: skip
    for name, message in (
        ("net.py:wrong", "gives a tuple of 3; allowed: a Split"),
        ("net.py:uneven", "gives 4 samples and 3 labels"),
        ("nothing.npz", "cannot be read as an .npz file"),
        ("inputs.npy", "is no data: allowed are a data set"),
    ):
        with pytest.raises(DataError, match=message):
            load_split(name)


def test_inputs_without_labels_are_inputs_alone(here):
    values = np.arange(60.0, dtype=np.float32).reshape(30, 2)
    np.savez("inputs.npz", inputs=values)
    np.savez("several.npz", x=values, y=values[:, :1])
    np.savez("labels.npz", x=values, labels=np.arange(30) % 3)
    assert torch.equal(load_examples("inputs.npz"), torch.from_numpy(values))
    assert {name: item.shape for name, item in load_examples("several.npz").items()} == {
        "x": (30, 2), "y": (30, 1),
    }  # fmt: skip
    assert isinstance(load_examples("labels.npz"), Split)


def test_a_function_builds_the_architectures(tmp_path):
    def built(width=8, function="relu", middle=nn.Linear):
        functions = {"relu": nn.ReLU(), "silu": nn.SiLU()}
        first, last = nn.Linear(6, width), nn.Linear(width, 3)
        return nn.Sequential(first, functions[function], middle(width, width), last)

    labels = torch.arange(60) % 3
    architecture = {
        "width": [4, 8],
        "function": {"choices": ["relu", "silu"]},
        "middle": {"choices": [nn.Linear, nn.Identity], "shared": True},
    }
    config = {
        "trials": 2,
        "sampler": "random",
        "space": {**SPACE, "architecture": architecture},
        "training": {"epochs": 1},
    }
    data = (INPUTS[:40], labels[:40], INPUTS[40:60], labels[40:])
    result = search(
        trace(built(), INPUTS[:16]), config, output=tmp_path, samples=data, builder=built
    )
    assert not result.failed
    chosen = result.best[0].parameters
    assert {"architecture.width", "architecture.function"} <= set(chosen)
    assert chosen["architecture.middle"].startswith("torch.nn.modules.linear.")
    with pytest.raises(ConfigError, match="one worker"):
        search(trace(built(), INPUTS[:16]), config, output=tmp_path, builder=built, workers=2)


WIDTHS = {"data_in_width": 7, "data_in_frac_width": 4, "weight_width": 5, "bias_width": 9}
FORMATS = {
    "by": ["name"],
    "linear_0": {"config": {"name": "fixed", **WIDTHS}},
    "linear_2": {"config": {"name": "fixed", **WIDTHS, "weight_width": 6}},
}


def started(folder, **tables):
    """Return the parameters of the trials of a search that starts from a file of formats."""
    path = write_config(folder / "formats.toml", {"quantize": FORMATS})
    config = {"trials": 4, "start": str(path), "sampler": "tpe", **tables}
    problems.run(
        folder,
        config,
        samples=None,
        objective=lambda _, trial: float(sum(trial.params.values())),
        directions=["minimize"],
    )
    return [trial.params for trial in stored(folder)]


def test_the_first_trial_is_the_start_and_others_are_up_to_two_bits_narrower(tmp_path):
    first, *others = started(tmp_path)
    assert first["linear_0.weight_width"] == 5
    assert first["linear_2.weight_width"] == 6
    assert first["linear_2.bias_width"] == 9
    assert not any("frac" in name for name in first)
    assert len(others) == 3
    for params in others:
        assert all(first[name] - 2 <= value <= first[name] for name, value in params.items())


def test_a_start_is_the_nearest_value_of_a_space_and_refused_where_it_is_none(tmp_path):
    space = by_type(data_in_width=[4, 6, 12], weight_width={"low": 6, "high": 8})
    first, *_ = started(tmp_path, space=space)
    assert first["linear_0.data_in_width"] == 6
    assert first["linear_0.weight_width"] == 6
    other = write_config(tmp_path / "other.toml", {"parallelism": {"default": 2}})
    for start, message in (
        (3, "start is 3"),
        (str(tmp_path / "no.toml"), "cannot be read"),
        ({"by": ["name"], "linear_9": {"config": {}}}, "linear_9"),
        (str(other), "no number formats"),
    ):
        with pytest.raises(ConfigError, match=message):
            problems.run(tmp_path / "s", {"start": start}, objective=lambda *_: 0.0)


def test_a_compression_reads_the_file_of_formats(tmp_path):
    path = write_config(tmp_path / "formats.toml", {"quantize": FORMATS})
    ((_, arguments),) = parse_steps([{"pass": "quantize", "config": str(path)}])
    assert arguments["config"] == FORMATS
    with pytest.raises(ConfigError, match="cannot be read"):
        parse_steps([{"pass": "quantize", "config": "no.toml"}])
