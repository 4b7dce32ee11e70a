"""Spaces as people write them: shared, tied and conditional values, and formats left out."""

import json

import optuna
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize, to_hardware
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.graph import trace
from mase_hw.search import search
from mase_hw.search.space import Space
from tests.search.problems import FIXED, by_type, problem, run, stored

WIDTHS = (6, 8, 8, 3)


def proposals(quantize, count=40):
    """Return the space, and the entries of the linear layers in random trials."""
    space = Space.parse(canonicalize(problem(*WIDTHS)[0]), {"quantize": quantize})
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    chosen = []
    for _ in range(count):
        trial = study.ask()
        config, _ = space.propose(trial)
        chosen.append([config[f"linear_{number}"]["config"] for number in (0, 2, 4)])
        study.tell(trial, 0.0)
    return space, chosen


@pytest.mark.parametrize(
    ("by", "key", "names"),
    [
        ("type", "linear", ["linear_0", "linear_2", "linear_4"]),
        ("regex_name", "linear_[24]", ["linear_2", "linear_4"]),
        ("type", "default", ["linear_0", "linear_2", "linear_4"]),
    ],
)
def test_nodes_of_a_type_or_an_expression_share_one_choice(by, key, names):
    entry = {**FIXED, "weight_width": [3, 5, 7], "data_in_width": {"low": 4, "high": 9}}
    space, chosen = proposals({"by": by, key: {"shared": True, "config": entry}})
    searched = {item.name for item in space.dimensions}
    assert searched == {f"{key}.weight_width", f"{key}.data_in_width"}
    numbers = [(0, 2, 4).index(int(name[-1])) for name in names]
    for entries in chosen:
        assert len({json.dumps(entries[number]) for number in numbers}) == 1
    assert {entries[2]["weight_width"] for entries in chosen} == {3, 5, 7}


def test_one_value_is_shared_and_another_is_each_nodes_own():
    entry = {
        **FIXED,
        "weight_width": {"choices": [3, 5, 7], "shared": True},
        "data_in_width": [4, 8],
    }
    space, chosen = proposals({"by": "type", "linear": {"config": entry}})
    assert len(space.dimensions) == 4
    assert all(len({entry["weight_width"] for entry in entries}) == 1 for entries in chosen)
    assert any(len({entry["data_in_width"] for entry in entries}) == 2 for entries in chosen)


def test_the_format_of_an_operand_is_a_choice():
    names = {"choices": ["fixed", "ternary"], "shared": True}
    entry = {"name": "fixed", "data_in_width": 8, "weight_name": names}
    space, chosen = proposals({"default": {"config": entry}})
    assert {item.name for item in space.dimensions} == {"default.weight_name"}
    for entries in chosen:
        assert len({item["weight_name"] for item in entries}) == 1
    assert {entries[0]["weight_name"] for entries in chosen} == {"fixed", "ternary"}


def test_values_are_tied():
    entry = {**FIXED, "data_in_width": [4, 6, 8], "weight_width": {"same_as": "data_in_width"}}
    last = {**entry, "data_in_width": {"same_as": "linear_0.weight_width"}}
    quantize = {"by": ["name", "type"], "linear": {"config": entry}, "linear_4": {"config": last}}
    space, chosen = proposals(quantize)
    assert [item.name for item in space.dimensions] == [
        "linear_0.data_in_width",
        "linear_2.data_in_width",
    ]
    for first, second, third in chosen:
        assert first["weight_width"] == first["data_in_width"] == third["data_in_width"]
        assert second["weight_width"] == second["data_in_width"]
        assert third["weight_width"] == third["data_in_width"]
    assert any(first != second for first, second, _ in chosen)


def test_a_choice_counts_under_a_condition():
    entry = {
        **FIXED,
        "data_in_width": [4, 8],
        "weight_width": {"choices": [2, 3], "when": {"data_in_width": 4}, "otherwise": 6},
        "weight_frac_width": {"low": 1, "high": 2, "when": {"weight_width": [2, 3]}},
    }
    _, chosen = proposals({"by": "type", "linear": {"config": entry}})
    seen = set()
    for item in (entry for entries in chosen for entry in entries):
        narrow = item["data_in_width"] == 4
        assert item["weight_width"] in ((2, 3) if narrow else (6,))
        assert ("weight_frac_width" in item) == narrow
        seen.add((item["data_in_width"], item["weight_width"], item.get("weight_frac_width")))
    assert len(seen) == 5


@pytest.mark.parametrize("absent", ["none", None])
def test_a_layer_may_stay_in_real_numbers(absent, tmp_path):
    entry = {"name": [absent, "fixed", "mxint"], "weight_width": [4, 8], "data_in_width": 8}
    quantize = {"by": "type", "linear": {"config": entry}}
    _, chosen = proposals(quantize)
    names = {item.get("name") for entries in chosen for item in entries}
    assert names == {absent, "fixed", "mxint"}
    result = run(tmp_path, {"space": {"quantize": quantize}}, WIDTHS)
    assert result.failed == {}
    assert result.trials == 8


BAD = [
    ({"weight_width": {"same_as": "weight_with"}}, "refers to 'weight_with'.*weight_width"),
    ({"weight_width": {"same_as": "linear_9.data_in_width"}}, "'linear_9', which is no"),
    (
        {"weight_width": {"same_as": "bias_width"}, "bias_width": {"same_as": "weight_width"}},
        "refers to itself",
    ),
    ({"weight_width": {"same_as": "data_in_width", "low": 3}}, "same_as is a key, and alone"),
    ({"weight_width": {"choices": 3}}, "choices are a list"),
    ({"weight_width": {"choices": [3], "otherwise": 4}}, "otherwise without when"),
    ({"weight_width": {"choices": [3], "when": 4}}, "when of .* is 4"),
]


def test_bad_references_are_named():
    for entry, message in BAD:
        with pytest.raises(ConfigError, match=message):
            proposals({"by": "type", "linear": {"config": {**FIXED, **entry}}}, count=1)
    with pytest.raises(ConfigError, match="shared of linear is 3"):
        proposals({"linear": {"shared": 3, "config": FIXED}}, count=1)


def test_of_many_names_the_nearest_are_told():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(3, 3), nn.ReLU()) for _ in range(30)])
    mg = canonicalize(trace(model, torch.randn(4, 3)))
    for name in ("linear_99", "zzz"):
        with pytest.raises(ConfigError, match=r"'.*' selects nothing.* others") as found:
            mase_hw.quantize(mg, {"by": "name", name: {"config": FIXED}})
        assert len(str(found.value)) < 400
        assert ("did you mean" in str(found.value)) == (name != "zzz")


def test_what_no_hardware_takes_is_a_refused_trial_with_its_reason(tmp_path):
    widths, fractions = [16, 32], [8, 30]
    entry = {"name": "fixed"}
    for operand in ("data_in", "weight", "bias"):
        entry |= {f"{operand}_width": widths, f"{operand}_frac_width": fractions}
    config = {
        "trials": 12,
        "space": {"quantize": {"by": "type", "linear": {"shared": True, "config": entry}}},
        "objectives": ["accuracy", "average_bits"],
    }
    result = run(tmp_path, config, WIDTHS)
    assert 0 < len(result.failed) < 12
    assert all("at most 62 are supported" in reason for reason in result.failed.values())
    mg, _ = problem(*WIDTHS)
    for trial in (item for item in stored(tmp_path) if item.state.name == "COMPLETE"):
        assert trial.user_attrs["result"]["without_hardware"] == []
        to_hardware(mase_hw.quantize(mg, trial.user_attrs["result"]["config"]))


def test_what_has_no_hardware_in_any_format_is_reported(tmp_path):
    class Summed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(6, 3)

        def forward(self, x):
            return torch.lgamma(self.first(x))

    _, samples = problem()
    mg = trace(Summed(), samples.inputs[:16], name="tiny")
    config = {"trials": 2, "sampler": "random", "space": by_type(weight_width=[4, 8])}
    result = search(mg, config, output=tmp_path, samples=samples)
    assert result.failed == {}
    (reason,) = result.best[0].without_hardware
    assert "lgamma" in reason
    with pytest.raises(UnsupportedError, match=r"lut is a figure.*\n  lgamma \(.*test_space.py"):
        asked = {**config, "objectives": ["lut"]}
        search(mg, asked, output=tmp_path / "lut", samples=samples)
    assert not (tmp_path / "lut").exists()
