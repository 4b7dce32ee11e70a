"""Searches that change weights: architecture, layers left out, sparsity, training, and pruners."""

import tomllib

import optuna
import pytest
import torch

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import CaptureError, ConfigError, DataError
from mase_hw.graph import MaseGraph
from mase_hw.passes.compression.prune import report_sparsity_analysis_pass
from mase_hw.passes.compression.skip import skip_transform_pass, skippable
from mase_hw.search import Samples
from mase_hw.search.objective import score
from mase_hw.search.samplers import PRUNERS, make_pruner
from tests.search import problems
from tests.search.problems import network, problem, stored

FORMATS = {
    "by": "type",
    "linear": {"config": {"name": "fixed", "data_in_width": 8, "weight_width": [3, 8]}},
}
FACTORY = """
import torch
from torch import nn


def tiny(hidden=8, layers=1):
    inner = [item for _ in range(layers) for item in (nn.Linear(hidden, hidden), nn.ReLU())]
    model = nn.Sequential(nn.Linear(6, hidden), nn.ReLU(), *inner, nn.Linear(hidden, 3))
    return model, torch.zeros(4, 6)
"""


WIDTHS = (6, 8, 8, 3)


def run(folder, config, **options):
    return problems.run(folder, {"trials": 6} | config, WIDTHS, **options)


def assert_emitted_as_measured(folder, best):
    """Emit what a search wrote; its hardware has the accuracy of the trial."""
    mg = MaseGraph.load(folder / "best.mase")
    tables = tomllib.loads((folder / "best.toml").read_text())
    _, samples = problem(*WIDTHS)
    project = mase_hw.emit_verilog(mg, output=folder / "rtl", config=tables["quantize"])
    report = mase_hw.simulate(project, samples.inputs)
    (outputs,) = report.outputs.values()
    classes = outputs.reshape(len(samples.labels), -1).argmax(dim=1)
    assert report.bit_exact
    assert float((classes == samples.labels).double().mean()) == best.metrics["accuracy"]


@pytest.fixture
def factory(tmp_path):
    path = tmp_path / "models.py"
    path.write_text(FACTORY)
    return f"{path}:tiny"


@pytest.mark.full
def test_an_architecture_is_built_trained_and_handed_to_emission(tmp_path, factory):
    space = {"architecture": {"hidden": [4, 8], "layers": [1, 2]}, "quantize": FORMATS}
    config = {
        "space": space,
        "training": {"epochs": 4, "learning_rate": 0.02, "batch_size": 16},
        "finetuning": {"epochs": 1, "learning_rate": 0.005},
    }
    result = run(tmp_path, config, builder=factory)
    assert result.failed == {}
    best = result.best[0]
    mg = MaseGraph.load(tmp_path / "best.mase")
    hidden = best.parameters["architecture.hidden"]
    first = next(value for name, value in mg.model.named_parameters() if name.endswith("weight"))
    assert first.shape == (hidden, 6)
    assert_emitted_as_measured(tmp_path, best)
    # Deeper models have dimensions that the others lack.
    names = [set(trial.params) for trial in stored(tmp_path)]
    assert len({frozenset(item) for item in names}) == len(
        {trial.params["architecture.layers"] for trial in stored(tmp_path)}
    )


@pytest.mark.full
def test_finetuning_learns_the_steps_that_are_emitted(tmp_path):
    entry = {"name": "fixed", "data_in_width": [8], "weight_name": "scaled_integer"}
    entry["weight_width"] = 4
    space = {"quantize": {"by": "type", "linear": {"config": entry}}}
    finetuning = {"epochs": 3, "learning_rate": 0.01, "batch_size": 16}
    weights = []
    for learns in (False, True):
        folder = tmp_path / str(learns)
        config = {"space": space, "finetuning": {**finetuning, "learn_steps": learns}, "trials": 1}
        best = run(folder, config).best[0]
        weights.append(best.config["linear_0"]["config"]["weight_scale"])
    assert weights[0] != weights[1]
    assert_emitted_as_measured(folder, best)


def test_sparsity_and_layers_are_searched(tmp_path):
    space = {
        "quantize": FORMATS,
        "skip": ["linear_2"],
        "prune": {"criterion": "l1", "linear_0": {"sparsity": {"low": 0.1, "high": 0.9}}},
    }
    space["prune"]["sparsity"] = 0.5
    result = run(tmp_path, {"space": space, "objectives": ["accuracy", "sparsity"], "trials": 8})
    trials = stored(tmp_path)
    assert {trial.params["skip.linear_2"] for trial in trials} == {False, True}
    for trial in trials:
        skipped = trial.params["skip.linear_2"]
        assert ("linear_2.weight_width" in trial.params) != skipped
    for number, item in enumerate(result.best):
        mg = MaseGraph.load(tmp_path / f"front_{number}.mase")
        shares = report_sparsity_analysis_pass(mg)[1]["nodes"]
        wanted = item.parameters["prune.linear_0.sparsity"]
        assert shares["linear_0"] == pytest.approx(wanted, abs=1 / 96)
        assert shares["linear_4"] == pytest.approx(0.5, abs=1 / 48)
        assert ("linear_2" in shares) != item.parameters["skip.linear_2"]


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "space", [{"prune": {"sparsity": [0.1, 0.5]}}, {"skip": ["linear_2"]}], ids=["prune", "skip"]
)
def test_what_is_searched_without_formats_is_emitted_in_those_of_emission(tmp_path, space):
    config = {"space": space, "objectives": ["accuracy", "average_bits"], "trials": 2}
    result = run(tmp_path, config)
    best = result.best[0]
    assert best.metrics["average_bits"] == 8
    assert not best.without_hardware
    (tmp_path / "front_0.mase").rename(tmp_path / "best.mase")
    (tmp_path / "front_0.toml").rename(tmp_path / "best.toml")
    assert_emitted_as_measured(tmp_path, best)


def test_a_weight_without_a_format_takes_the_bits_of_a_float(tmp_path):
    config = {
        "space": {"quantize": {"by": "type", "linear": {"config": {"name": ["none"]}}}},
        "objectives": ["average_bits"],
        "trials": 1,
    }
    assert run(tmp_path, config).best[0].metrics["average_bits"] == 32


def test_a_skipped_layer_leaves_its_operand():
    mg = canonicalize(problem(*WIDTHS)[0])
    assert skippable(mg) == ["linear_2"]
    found, info = skip_transform_pass(mg, {"nodes": ["linear_2"]})
    assert info == {"skipped": ["linear_2"]}
    inputs = torch.randn(5, 6)
    model = network(*WIDTHS)
    assert torch.equal(found(inputs), model[4](model[3](model[1](model[0](inputs)))))
    for name, words in (("linear_0", "shape of its operand"), ("linear_9", "no node")):
        with pytest.raises(ConfigError, match=words):
            skip_transform_pass(mg, {"nodes": [name]})


def test_a_pruner_ends_trials_early(tmp_path):
    entry = {**FORMATS["linear"]["config"], "weight_width": {"low": 2, "high": 8}}
    config = {
        "space": {"quantize": {**FORMATS, "linear": {"config": entry}}},
        "pruner": "median",
        "pruner_options": {"n_startup_trials": 2, "n_warmup_steps": 0},
        "trials": 20,
    }
    result = run(tmp_path, config)
    states = [trial.state.name for trial in stored(tmp_path)]
    assert result.trials == 20
    assert result.failed == {}
    assert set(states) == {"COMPLETE", "PRUNED"}
    for trial in stored(tmp_path):
        full = len(trial.intermediate_values) == 4
        assert full or trial.state.name == "PRUNED"


@pytest.mark.parametrize("name", PRUNERS)
def test_every_pruner_can_be_made(name):
    options = {"percentile": {"percentile": 25.0}, "threshold": {"lower": 0.1}}
    assert isinstance(make_pruner(name, options.get(name, {})), optuna.pruners.BasePruner)


def test_a_trial_out_of_memory_fails_alone(tmp_path, factory):
    config = {"space": {"architecture": {"hidden": [4, 10**9]}}, "trials": 8}
    result = run(tmp_path, config, builder=factory)
    assert result.trials == 8
    assert 0 < len(result.failed) < 8
    assert all("memory" in message for message in result.failed.values())


BAD = [
    ({"space": {"prune": {"sparsity": [0.5, 1.0]}}}, "1.0; allowed: from 0 to below 1"),
    ({"space": {"prune": {"sparsity": {"low": -0.1, "high": 0.5}}}}, "-0.1; allowed"),
    ({"space": {"prune": {"sparsty": [0.5]}}}, "did you mean sparsity"),
    ({"space": {"prune": {"linear_9": {"sparsity": [0.5]}}}}, "'linear_9', neither"),
    ({"space": {"skip": ["relu_1"]}}, "'relu_1' matches no layer"),
    ({"space": {"skip": ["("]}}, "no expression"),
    ({"space": {"architecture": {"hidden": [4, 8]}}}, "a registered name or file.py:factory"),
    ({"pruner": "meridian"}, "did you mean median"),
    ({"pruner": "median", "pruner_options": {"depth": 1}}, "pruner median: .*depth"),
    ({"pruner": "median", "objectives": ["accuracy", "lut"]}, "allowed: accuracy alone"),
    ({"training": {"epoch": 1}}, "did you mean epochs"),
    ({"training": {"epochs": -1}}, "epochs is -1"),
]


def test_bad_settings_are_refused(tmp_path, factory):
    for change, message in BAD:
        with pytest.raises(ConfigError, match=message):
            run(tmp_path, {"space": {"quantize": FORMATS}} | change)
    with pytest.raises(ConfigError, match="no argument 'hiden'; did you mean hidden"):
        run(tmp_path, {"space": {"architecture": {"hiden": [4]}}}, builder=factory)
    with pytest.raises(ConfigError, match="depend on the architecture"):
        mixed = {"architecture": {"hidden": [4, 8]}, "quantize": FORMATS}
        run(tmp_path, {"space": mixed, "sampler": "grid"}, builder=factory)
    with pytest.raises(CaptureError, match="no model is called"):
        run(tmp_path, {"space": {"architecture": {"hidden": [4]}}}, builder="nothing")
    _, samples = problem()
    with pytest.raises(DataError, match="training needs labelled samples"):
        bare = Samples(samples.inputs, samples.labels)
        run(tmp_path, {"space": {"quantize": FORMATS}, "training": {}}, samples=bare)
    assert not (tmp_path / "study.db").exists()


@pytest.mark.full
def test_a_search_that_trains_repeats(tmp_path, factory):
    space = {"architecture": {"hidden": [4, 6, 8]}, "prune": {"sparsity": [0.2, 0.6]}}
    config = {"space": space, "training": {"epochs": 1}, "finetuning": {"epochs": 1}, "trials": 4}
    for name in ("first", "second"):
        run(tmp_path / name, config, builder=factory)
    first, second = (
        [(trial.params, trial.user_attrs["result"]["predictions"]) for trial in stored(folder)]
        for folder in (tmp_path / "first", tmp_path / "second")
    )
    assert first == second


def test_scores_of_a_graph_without_formats_are_its_own():
    mg, samples = problem(*WIDTHS)
    assert torch.allclose(score(canonicalize(mg), samples.inputs), mg(samples.inputs), atol=1e-5)
