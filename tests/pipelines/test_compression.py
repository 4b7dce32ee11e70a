"""Compression in a declared order: repeatable, resumable, and emitted as it is."""

import csv
import json
import tomllib
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw._config_file import read_formats
from mase_hw.data import Split
from mase_hw.errors import ConfigError, MaseError
from mase_hw.graph import MaseGraph, trace
from mase_hw.pipelines.compression import CompressionPipeline
from mase_hw.pipelines.sweep import sweep
from mase_hw.training import Trainer

FORMATS = {"name": "fixed", "data_in_width": 6, "weight_width": 5, "bias_width": 8}
CONFIG = {
    "seed": 3,
    "steps": [
        {"pass": "prune", "sparsity": 0.5},
        {"pass": "train", "epochs": 4, "learning_rate": 2e-2, "batch_size": 16},
        {"pass": "quantize", "config": {"default": {"config": FORMATS}}, "observer": "mse"},
        {"pass": "train", "epochs": 2, "batch_size": 16},
    ],
    "parallelism": {"default": 4},
}


def problem():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    labels = torch.arange(240) % 3
    inputs = nn.functional.one_hot(labels, 6) + 0.5 * torch.randn(240, 6)
    split = Split(inputs[:180], labels[:180], inputs[180:], labels[180:])
    return trace(model, inputs[:16], name="tiny"), split.hold_out()


def compress(folder, config=CONFIG, **options):
    mg, split = problem()
    return mase_hw.compress(mg, config, split, output=folder, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return compress(folder)


def test_the_steps_run_in_order(whole):
    assert [row["step"] for row in whole.rows] == ["start", "prune", "train", "quantize", "train"]
    assert [row["sparsity"] for row in whole.rows] == [0.0, *[pytest.approx(0.5, abs=0.01)] * 4]
    assert whole.rows[2]["accuracy"] > whole.rows[0]["accuracy"] + 0.1
    assert whole.rows[3]["average_weight_bits"] < 6 < whole.rows[2]["average_weight_bits"]
    share, count = whole.rows[4]["accuracy"], 36
    expected = (share * (1 - share) / count) ** 0.5
    assert whole.rows[4]["standard_error"] == pytest.approx(expected)


def test_the_result_is_emitted_as_it_is(whole, tmp_path):
    _, split = problem()
    tables = tomllib.loads((whole.folder / "config.toml").read_text())
    project = mase_hw.emit_verilog(
        MaseGraph.load(whole.folder / "model.mase"),
        output=tmp_path / "project",
        config=tables["quantize"],
        parallelism=tables["parallelism"],
    )
    report = mase_hw.simulate(project, split.test_inputs)
    assert report.bit_exact
    (outputs,) = report.outputs.values()
    classes = outputs.reshape(len(split.test_labels), -1).argmax(dim=1)
    assert float((classes == split.test_labels).double().mean()) == whole.test["after"]
    assert report.predicted_interval_cycles == whole.hardware["interval_cycles"]
    weights = [item for item in project.mg.model.parameters() if item.dim() == 2]
    zeros = sum(int((item == 0).sum()) for item in weights)
    assert zeros >= 0.49 * sum(item.numel() for item in weights)


def test_the_report_holds_every_step_and_layer(whole):
    with (whole.folder / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["accuracy"]) for row in rows] == [row["accuracy"] for row in whole.rows]
    entry = json.loads((whole.folder / "report.json").read_text())
    with (whole.folder / "layers.csv").open() as file:
        layers = list(csv.DictReader(file))
    assert [row["name"] for row in layers] == [layer["name"] for layer in entry["layers"]]
    assert {"weight_bits", "sqnr_db", "sensitivity_db"} <= set(layers[0])
    assert 1 < entry["memory_density"] < 32
    for name in ("accuracy", "noise", "ranges"):
        assert (whole.folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (whole.folder / f"{name}.svg").read_text()


@pytest.mark.full
def test_a_stopped_compression_goes_on_and_repeats(whole, tmp_path):
    class StopError(Exception):
        pass

    def stop(done, total):
        # Half of the second training is done: a part of the fourth step.
        if total == 400 and done == 350:
            raise StopError

    with pytest.raises(StopError):
        compress(tmp_path, progress=stop)
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "steps").glob("*.mase")}
    assert {path.name[:2] for path in made} == {"01", "02", "03"}
    seen = []
    again = compress(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert (350, 400) not in seen
    assert (400, 400) in seen
    assert all(path.stat().st_mtime_ns == time for path, time in made.items())
    assert list(again.rows) == list(whole.rows)
    assert again.test == whole.test
    for name in ("model.mase", "config.toml", "report.json", "accuracy.svg", "ranges.png"):
        assert (tmp_path / name).read_bytes() == (whole.folder / name).read_bytes(), name


@pytest.mark.full
def test_a_changed_step_is_done_again(whole, tmp_path):
    compress(tmp_path)
    changed = CONFIG | {"steps": [*CONFIG["steps"][:3], {"pass": "train", "epochs": 1}]}
    before = (tmp_path / "steps" / "03_quantize.mase").stat().st_mtime_ns
    result = compress(tmp_path, changed)
    assert (tmp_path / "steps" / "03_quantize.mase").stat().st_mtime_ns == before
    assert list(result.rows[:4]) == list(whole.rows[:4])
    assert (tmp_path / "model.mase").read_bytes() != (whole.folder / "model.mase").read_bytes()


def test_a_schedule_prunes_in_stages():
    step = {"pass": "prune_transform_pass", "sparsity": 0.8, "schedule": "cubic", "stages": 2}
    pipeline = CompressionPipeline([step | {"train": {"epochs": 1}}, ("quantize", {})])
    assert [name for name, _ in pipeline.steps] == ["prune", "train", "prune", "quantize"]
    assert pipeline.steps[0][1]["sparsity"] == pytest.approx(0.8 * 0.875)
    assert pipeline.steps[2][1] == {"sparsity": 0.8}
    assert pipeline.steps[1][1] == {"epochs": 1}


@pytest.mark.full
def test_channels_leave_and_adapters_are_fused_on_the_way():
    steps = [
        {"pass": "prune_structure", "sparsity": 0.5},
        {"pass": "lora", "rank": 1, "train": {"epochs": 2, "batch_size": 16}},
        {"pass": "quantize"},
        {"pass": "prune", "sparsity": 0.4},
        {"pass": "train", "epochs": 1},
    ]
    result = compress(None, {"steps": steps})
    first, small, adapted, quantized, pruned, last = result.rows
    assert small["parameters"] == adapted["parameters"] == 4 * 6 + 4 + 3 * 4 + 3
    assert first["parameters"] > 1.5 * small["parameters"]
    assert adapted["trained_parameters"] == (6 + 4) + (4 + 3)
    assert quantized["average_weight_bits"] < 10
    assert 0.35 < pruned["sparsity"] == last["sparsity"]
    zeros = [int((item == 0).sum()) for item in result.mg.model.parameters() if item.dim() == 2]
    assert sum(zeros) == round(last["sparsity"] * 36)


@pytest.mark.full
def test_activations_leave_and_steps_are_learned(tmp_path):
    entry = {"name": "fixed", "data_in_width": 4, "weight_width": 3, "bias_width": 8}
    learn = {"pass": "train", "epochs": 4, "learning_rate": 1e-2, "learn_steps": True}
    steps = [
        {"pass": "prune_activations", "sparsity": 0.5},
        {"pass": "quantize", "config": {"default": {"config": entry}}},
        learn | {"batch_size": 16},
    ]
    whole = compress(tmp_path, {"steps": steps})
    plain = compress(None, {"steps": [*steps[:2], {"pass": "train", "epochs": 0}]})
    assert whole.config != plain.config
    assert whole.rows[3]["accuracy"] > whole.rows[2]["accuracy"] + 0.05
    assert [row["average_weight_bits"] for row in whole.rows[2:]] == [
        plain.rows[2]["average_weight_bits"]
    ] * 2
    again = compress(tmp_path, {"steps": steps})
    assert (again.config, again.rows) == (whole.config, whole.rows)
    tables = tomllib.loads((tmp_path / "config.toml").read_text())
    project = mase_hw.emit_verilog(
        MaseGraph.load(tmp_path / "model.mase"), output=tmp_path / "rtl", config=tables["quantize"]
    )
    _, split = problem()
    report = mase_hw.simulate(project, split.test_inputs)
    (outputs,) = report.outputs.values()
    classes = outputs.reshape(len(split.test_labels), -1).argmax(dim=1)
    assert report.bit_exact
    assert float((classes == split.test_labels).double().mean()) == whole.test["after"]
    for step, message in ((steps[0], "prune activations before"), (steps[1], "quantize once")):
        with pytest.raises(ConfigError, match=message):
            compress(None, {"steps": [steps[1], step]})
    with pytest.raises(ConfigError, match="learn_steps needs number formats; quantize first"):
        compress(None, {"steps": [learn]})


def test_a_sweep_visits_the_grid_and_records_failures(tmp_path):
    mg, split = problem()
    width = "steps.2.config.default.config.weight_width"
    grid = {width: [3, 40], "steps.0.sparsity": [0.2, 0.6]}
    result = sweep(mg, split, CONFIG | {"sweep": grid}, output=tmp_path)
    assert [(row[width], row["steps.0.sparsity"]) for row in result.rows] == [
        (3, 0.2),
        (3, 0.6),
        (40, 0.2),
        (40, 0.6),
    ]
    assert [row["sparsity"] for row in result.rows[:2]] == [
        pytest.approx(0.2, abs=0.02),
        pytest.approx(0.6, abs=0.02),
    ]
    assert all("width is 40; allowed" in row["error"] for row in result.rows[2:])
    with (tmp_path / "sweep.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 4
    assert (tmp_path / "sweep.svg").exists()
    config = tmp_path / result.rows[0]["folder"] / "config.toml"
    assert "weight_width = 3" in config.read_text()


def test_criteria_of_pruning_have_one_name_everywhere(tmp_path):
    mg, split = problem()
    names = ["l2", "wanda", "snip", "taylor", "movement"]
    steps = [{"pass": "prune", "sparsity": 0.5}]
    grid = {"steps": steps, "sweep": {"steps.0.criterion": names}}
    rows = sweep(mg, split, grid, output=tmp_path / "sweep").rows
    assert [row["sparsity"] for row in rows] == [pytest.approx(0.5, abs=0.02)] * 5
    space = {"prune": {"sparsity": 0.5, "criterion": names}}
    config = {"space": space, "sampler": "grid", "objectives": ["accuracy", "sparsity"]}
    result = mase_hw.search(mg, config, samples=split, output=tmp_path / "search")
    assert not result.failed and result.trials == 5
    of_names = {row["steps.0.criterion"]: row["accuracy"] for row in rows}
    assert len(set(of_names.values())) > 1
    for item in result.best:
        assert item.parameters["prune.criterion"] in names
        assert item.metrics["sparsity"] == pytest.approx(0.5, abs=0.02)


BAD_PIPELINES = [
    ({"steps": []}, "steps is empty"),
    ({}, "steps is empty"),
    ({"steps": [{"pass": "prun"}]}, "pass 'prun'; did you mean prune"),
    ({"steps": [{"sparsity": 0.5}]}, "step 0 is the pass ''"),
    ({"steps": ["prune"]}, "allowed: a table with `pass`"),
    ({"steps": [{"pass": "train", "epoch": 3}]}, "train has no 'epoch'"),
    ({"steps": [{"pass": "train", "trainer": "lop"}]}, "did you mean loop"),
    ({"steps": [{"pass": "prune", "sparsity": 1.0}]}, "sparsity is 1.0"),
    ({"steps": [{"pass": "prune", "sparsity": 0.5, "schedule": "cubc"}]}, "mean cubic"),
    ({"steps": [{"pass": "prune", "sparsity": 0.5, "schedule": "cubic", "stages": 0}]}, "is 0"),
    ({"steps": [{"pass": "quantize", "samples": 0}]}, "samples is 0"),
    ({"steps": [{"pass": "quantize", "observer": "mean"}]}, "no observer"),
    ({"steps": CONFIG["steps"], "seed": "one"}, "seed is 'one'"),
    ({"step": []}, "pipeline has no 'step'"),
]


def test_bad_pipelines_are_refused():
    mg, split = problem()
    for config, message in BAD_PIPELINES:
        with pytest.raises(ConfigError, match=message):
            mase_hw.compress(mg, config, split)


def test_bad_sweeps_are_refused(tmp_path):
    mg, split = problem()
    for grid, message in (
        ({}, "missing or empty"),
        ({"seed": 3}, "seed is 3; allowed: a list"),
        ({"steps.9.sparsity": [0.1]}, "no '9' in a list of 4"),
        ({"stps.0.sparsity": [0.1]}, "no 'stps' in seed, steps"),
        ({"steps.0.sparsty": [0.1]}, "has no argument 'sparsty'"),
    ):
        with pytest.raises(MaseError, match=message):
            sweep(mg, split, CONFIG | {"sweep": grid}, output=tmp_path)


TIED = {"name": "fixed", "data_in_width": 6, "weight_width": {"same_as": "data_in_width"}}


def tied(**entry: object) -> dict[str, object]:
    """Return a compression that trains, and whose number formats hold a tie."""
    formats = {"by": "type", "linear": {"config": {**TIED, "bias_width": 8, **entry}}}
    return {"steps": [{"pass": "train", "epochs": 1}, {"pass": "quantize", "config": formats}]}


def test_ties_mean_the_same_in_compressions_sweeps_and_searches(tmp_path: Path) -> None:
    mg, split = problem()
    given = {"bias_width": {"choices": [8], "when": {"data_in_width": 6}, "otherwise": 9}}
    with pytest.raises(ConfigError, match=r"linear_0.bias_width has several values"):
        mase_hw.compress(mg, tied(**given), split)
    result = mase_hw.compress(mg, tied(), split)
    assert result.config is not None
    key = "steps.1.config.linear.config"
    points = {
        f"{key}.data_in_width": [4, 6],
        f"{key}.bias_width": {"same_as": f"{key}.data_in_width"},
    }
    rows = sweep(mg, split, {**tied(), "sweep": points}, output=tmp_path / "sweep").rows
    assert [row[f"{key}.bias_width"] for row in rows] == [4, 6]
    space = {"quantize": {"by": "type", "linear": {"config": {**TIED, "data_in_width": [6]}}}}
    found = mase_hw.search(
        mg, {"space": space, "trials": 1}, samples=split, output=tmp_path / "search"
    )
    for config in (result.config, found.best[0].config):
        assert config["linear_0"]["config"]["weight_width"] == 6
    names = [f"data_in_width-{width}_bias_width-{width}" for width in (4, 6)]
    for name, bits in zip(names, (4, 6), strict=True):
        known = read_formats(tmp_path / "sweep" / name / "config.toml")
        assert known["linear_0"]["config"]["weight_width"] == bits
        assert known["linear_0"]["config"]["bias_width"] == bits


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"weight_width": {"same_as": "data_width"}}, "refers to 'data_width'.*data_in_width"),
        ({"wait_width": 3}, "unknown key 'wait_width'"),
    ],
)
def test_number_formats_are_checked_before_anything_trains(
    entry: dict[str, object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mg, split = problem()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr(Trainer, "fit", refuse)
    with pytest.raises(ConfigError, match=message):
        mase_hw.compress(mg, tied(**entry), split)
    grid = {"seed": [0, 1]}
    with pytest.raises(ConfigError, match=message):
        sweep(mg, split, {**tied(**entry), "sweep": grid}, output=tmp_path)
    with pytest.raises(ConfigError, match="is the same as 'sed'"):
        sweep(mg, split, {**tied(), "sweep": {**grid, "task": {"same_as": "sed"}}}, output=tmp_path)
