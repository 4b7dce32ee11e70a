"""Search: samplers, spaces, constraints, storage that survives, and the file that is emitted."""

import contextlib
import csv
import importlib
import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import optuna
import pytest
import torch

import mase_hw
from mase_hw._config_file import write_config
from mase_hw.cli import search as command
from mase_hw.cli._progress import Display
from mase_hw.data import Split, dataset
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError, DataError, SearchError
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.search.objective import score
from mase_hw.search.samplers import SAMPLERS
from mase_hw.search.storage import ERROR, WORKER
from tests.search import problems
from tests.search.problems import by_type, problem, stored, study

ROOT = Path(__file__).resolve().parents[2]


def space(**entry):
    return by_type(**{"data_in_width": [4, 8], "weight_width": {"low": 3, "high": 8}, **entry})


def run(folder, config=None, **options):
    return problems.run(folder, {"space": space()} | (config or {}), **options)


@pytest.mark.first(2)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_finds_something(tmp_path, sampler):
    config = {"sampler": sampler, "objectives": ["accuracy"], "trials": 12}
    result = run(tmp_path, config)
    assert result.trials == 12
    assert result.failed == {}
    trials = stored(tmp_path)
    assert result.best[0].metrics["accuracy"] == max(trial.value for trial in trials)
    assert set(trials[0].params) == {
        f"linear_{layer}.{key}" for layer in (0, 2) for key in ("data_in_width", "weight_width")
    }


@pytest.mark.first(1)
@pytest.mark.parametrize("sampler", ["random", "tpe", "nsga2"])
def test_a_search_repeats_and_goes_on_where_it_was(tmp_path, sampler):
    config = {"sampler": sampler, "trials": 14, "objectives": ["accuracy", "average_bits"]}
    run(tmp_path / "whole", config)

    def interrupt(done, total):
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", config, progress=interrupt)
    assert len(stored(tmp_path / "cut")) == 6
    run(tmp_path / "cut", config)
    whole, cut = ([(t.params, t.values) for t in stored(tmp_path / n)] for n in ("whole", "cut"))
    assert whole == cut


def test_a_grid_visits_every_point_once(tmp_path):
    entry = {"weight_width": [3, 6], "data_in_width": 8}
    result = run(tmp_path, {"sampler": "grid", "trials": 100, "space": space(**entry)})
    points = {tuple(sorted(trial.params.items())) for trial in stored(tmp_path)}
    names = ("linear_0.weight_width", "linear_2.weight_width")
    assert points == {
        tuple(zip(names, values, strict=True)) for values in itertools.product((3, 6), repeat=2)
    }
    assert result.trials == 4


def test_an_operand_may_have_a_format_of_its_own(tmp_path):
    entry = {"name": ["ternary", "binary"], "data_out_name": "fixed", "data_out_width": [8, 16]}
    tables = {"quantize": {"by": "type", "linear": {"config": entry}}}
    result = run(tmp_path, {"space": tables})
    assert result.failed == {}
    assert {key for trial in stored(tmp_path) for key in trial.params} == {
        f"linear_{layer}.{key}" for layer in (0, 2) for key in ("name", "data_out_width")
    }
    config = result.best[0].config["linear_2"]["config"]
    assert config["data_out_0_name"] == "fixed"
    assert config["data_out_0_width"] in (8, 16)


@pytest.mark.full
def test_a_front_holds_what_nothing_dominates(tmp_path):
    result = run(tmp_path, {"objectives": ["accuracy", "average_bits"], "trials": 25})
    points = [tuple(trial.values) for trial in stored(tmp_path)]
    front = [(item.metrics["accuracy"], item.metrics["average_bits"]) for item in result.best]
    for point in points:
        dominated = any(
            best[0] >= point[0] and best[1] <= point[1] and best != point for best in front
        )
        assert dominated != (point in front)
    assert front == sorted(front, reverse=True)
    assert len(list(tmp_path.glob("front_*.toml"))) == len(front)
    with (tmp_path / "trials.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 25


@pytest.mark.full
def test_constraints_bound_the_result(tmp_path):
    tables = space() | {"parallelism": {"default": [1, 2, 4, 8]}}
    config = {"space": tables, "trials": 20, "objectives": ["interval_cycles"]}
    result = run(tmp_path, config | {"constraints": {"multipliers": 20, "accuracy": 0.5}})
    metrics = [trial.user_attrs["metrics"] for trial in stored(tmp_path)]
    feasible = [m for m in metrics if m["multipliers"] <= 20 and m["accuracy"] >= 0.5]
    best = result.best[0].metrics
    assert best in feasible
    assert best["interval_cycles"] == min(item["interval_cycles"] for item in feasible)
    with pytest.raises(SearchError, match="none of 8 trials satisfies"):
        run(tmp_path / "none", {"constraints": {"average_bits": 1}})


def test_a_failed_trial_is_recorded_and_the_study_goes_on(tmp_path):
    result = run(tmp_path, {"space": space(weight_width=[6, 40]), "trials": 12})
    assert result.trials == 12
    assert 0 < len(result.failed) < 12
    for trial in stored(tmp_path):
        failed = 40 in trial.params.values()
        assert (trial.number in result.failed) == failed
        if failed:
            assert "width is 40; allowed: an integer from 2 to 32" in trial.user_attrs[ERROR]
    with pytest.raises(SearchError, match="all 8 trials failed"):
        run(tmp_path / "all", {"space": space(weight_width=[40, 41])})


BAD = [
    ({"sampler": "grid", "space": space(weight_width={"low": 2.0, "high": 8.0})}, "continuous"),
    ({"space": {"quantize": {"by": "name", "linear_9": {"config": {}}}}}, "linear_9.*selects"),
    ({"space": {"parallelism": {"conv": {"data_in_0_dim_0": [1]}}}}, "no node 'conv'"),
    ({"space": space(weight_width=[])}, "empty list"),
    ({"space": space(weight_width={"low": 8, "high": 2})}, "range of .* is empty"),
    ({"space": space(weight_width={"from": 8})}, "keys low and high"),
    ({"space": space(weight_wdth=[1, 2])}, "did you mean weight_width"),
    ({"space": space(weight_width=8, data_in_width=8)}, "no dimension"),
    (
        {"space": {"quantize": {"by": "type", "conv2d": {"config": problems.FIXED}}}},
        "none for a node of tiny",
    ),
    ({"sampler": "tpee"}, "did you mean tpe"),
    ({"sampler": "tpe", "sampler_options": {"depth": 3}}, "sampler tpe: .*depth"),
    ({"objectives": ["acuracy"]}, "did you mean accuracy"),
    ({"objectives": []}, "objectives"),
    ({"trials": 0}, "trials is 0"),
    ({"trails": 3}, "did you mean trials"),
]


def test_bad_searches_are_refused_before_the_first_trial(tmp_path):
    for change, message in BAD:
        with pytest.raises(ConfigError, match=message):
            run(tmp_path, change)
    with pytest.raises(DataError, match="needs labelled samples"):
        run(tmp_path, samples=None)
    assert not (tmp_path / "study.db").exists()


def test_a_storage_of_another_study_is_refused(tmp_path):
    run(tmp_path, {"trials": 2})
    with pytest.raises(SearchError, match="another search: space differ"):
        run(tmp_path, {"trials": 2, "space": space(data_in_width=[5, 6])})
    assert len(stored(tmp_path)) == 2
    (tmp_path / "notes.db").write_text("this is no data base, " * 100)
    (tmp_path / "file").write_text("")
    for storage, message in (
        (tmp_path / "notes.db", r"notes\.db cannot be used"),
        ("nosuchbase://host/x", "nosuchbase://host/x cannot be used"),
        (tmp_path / "file" / "deeper" / "a.db", "file/deeper cannot be made: Not a directory"),
    ):
        with pytest.raises(SearchError, match=message):
            run(tmp_path, storage=storage)


def test_a_locked_storage_is_refused(tmp_path):
    run(tmp_path, {"trials": 2})
    holder = sqlite3.connect(tmp_path / "study.db")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(SearchError, match="is locked by another process"):
            run(tmp_path, {"trials": 4}, lock_timeout_seconds=0.1)
    finally:
        holder.close()
    assert run(tmp_path, {"trials": 4}).trials == 4


@pytest.mark.full
def test_killing_a_worker_loses_no_finished_trial(tmp_path):
    before = {}
    killed = []

    def kill_one(done, total):
        if killed or done < 3:
            return
        trials = stored(tmp_path)
        for trial in trials:
            if trial.state.name == "RUNNING" and WORKER in trial.user_attrs:
                process = int(trial.user_attrs[WORKER].rpartition(":")[2])
                os.kill(process, signal.SIGKILL)
                killed.append(trial.user_attrs[WORKER])
                before.update({t.number: t.values for t in trials if t.state.name == "COMPLETE"})
                return

    result = run(tmp_path, {"trials": 24}, workers=2, progress=kill_one)
    assert len(killed) == 1
    trials = {trial.number: trial for trial in stored(tmp_path)}
    assert len(before) >= 3
    assert all(trials[number].values == values for number, values in before.items())
    assert result.trials == 24
    assert sum(trial.state.name == "COMPLETE" for trial in trials.values()) == 24
    assert all(trial.state.is_finished() for trial in trials.values())
    # The kill may fall between two trials; then there is nothing to try again.
    died = [trial for trial in trials.values() if trial.state.name == "FAIL"]
    again = [trial for trial in trials.values() if trial.user_attrs.get("retries") == 1]
    assert len(died) == len(again) <= 1
    for first, second in zip(died, again, strict=True):
        assert first.user_attrs[WORKER] == killed[0]
        assert first.params.items() <= second.params.items()


def test_a_worker_killed_before_its_trial_has_its_name(tmp_path):
    def begin_and_die(done, total):
        if done == 2:
            assert WORKER not in study(tmp_path).ask().user_attrs

    result = run(tmp_path, {"trials": 6}, workers=1, progress=begin_and_die)
    assert result.trials == 6
    assert all(trial.state.is_finished() for trial in stored(tmp_path))


MAIN = """
import sys
from pathlib import Path
from tests.search.test_search import run

def show(done, total):
    print(done, flush=True)

run(Path(sys.argv[1]), {"trials": 100_000}, workers=2, progress=show)
"""


def _workers(folder):
    numbers = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode().split("\0")
            if "mase_hw.search.worker" in words and str(folder) in words[-2]:
                numbers.append(int(path.parent.name))
    return numbers


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are listed in /proc")
def test_workers_end_when_the_main_process_is_killed(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    environment = {**os.environ, "TMPDIR": str(shared), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", MAIN, str(tmp_path / "out")]
    with subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as main:
        for line in main.stdout:
            if int(line) > 2:
                break
        working = _workers(shared)
        main.kill()
    assert len(working) == 2
    end = time.monotonic() + 120
    while time.monotonic() < end and _workers(shared):
        time.sleep(0.1)
    assert _workers(shared) == []
    (left,) = shared.glob("mase-hw-search-*")
    again = "from mase_hw.search.worker import remove_leftovers; remove_leftovers()"
    subprocess.run([sys.executable, "-c", again], env=environment, cwd=ROOT, check=True)
    assert not left.exists()


def test_a_trial_whose_process_is_gone_is_tried_again(tmp_path):
    run(tmp_path, {"trials": 3})
    name = "linear_0.data_in_width"
    trial = study(tmp_path).ask({name: optuna.distributions.CategoricalDistribution([4, 8])})
    host = stored(tmp_path)[0].user_attrs[WORKER].rpartition(":")[0]
    trial.set_user_attr(WORKER, f"{host}:{2**22 + 1}")
    result = run(tmp_path, {"trials": 5})
    trials = stored(tmp_path)
    assert result.trials == 5
    assert trials[3].state.name == "FAIL"
    again = [item for item in trials if item.user_attrs.get("retries") == 1]
    assert [item.params[name] for item in again] == [trial.params[name]]


def test_configuration_files_are_toml(tmp_path):
    tables = {
        "quantize": {
            "by": ["name", "type"],
            "default": {"config": {}},
            "a.b": {"config": {"x": 1}},
        },
        "parallelism": {"default": 2, "f": {"data_in_0_dim_0": 4}},
        "other": {"real": 0.5, "flag": True, "text": 'a "quoted" line\n'},
    }
    path = write_config(tmp_path / "x.toml", tables)
    assert tomllib.loads(path.read_text()) == tables
    with pytest.raises(ConfigError, match="cannot hold None"):
        write_config(path, {"a": None})


def test_the_result_on_rtl_is_the_trial_sample_for_sample(tmp_path):
    mg, samples = problem()
    tables = space() | {"parallelism": {"default": [2, 4]}}
    config = {"space": tables, "trials": 6, "objectives": ["accuracy", "interval_cycles"]}
    result = mase_hw.search(mg, config, output=tmp_path, samples=samples)
    best = result.best[0]
    file = tomllib.loads((tmp_path / "best.toml").read_text())
    project = mase_hw.emit_verilog(
        mg, output=tmp_path / "project", config=file["quantize"], parallelism=file["parallelism"]
    )
    report = mase_hw.simulate(project, samples.inputs)
    (outputs,) = report.outputs.values()
    classes = outputs.reshape(len(samples.labels), -1).argmax(dim=1)
    quantized, _ = quantize_transform_pass(canonicalize(mg), file["quantize"])
    assert report.bit_exact
    assert torch.equal(classes, score(quantized, samples.inputs).reshape(90, 3).argmax(dim=1))
    assert float((classes == samples.labels).double().mean()) == best.metrics["accuracy"]
    assert report.predicted_interval_cycles == best.metrics["interval_cycles"]


def test_a_scheduler_that_is_not_there_is_named_and_dask_is_optional(tmp_path, monkeypatch):
    monkeypatch.setattr("mase_hw.search.farm.CONNECT_SECONDS", 0.3)
    with pytest.raises(SearchError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        run(tmp_path, dask="tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SearchError, match=r"pip install 'mase-hw\[dask\]'"):
        run(tmp_path, dask="tcp://127.0.0.1:9")


@pytest.mark.full
def test_two_dask_workers_share_a_study(tmp_path):
    from distributed import LocalCluster

    config = {"trials": 10, "space": space(weight_width=[6, 8, 40])}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        result = run(tmp_path, config, workers=2, dask=cluster.scheduler_address)
    trials = stored(tmp_path)
    assert result.trials == len(trials) == 10
    assert len({trial.user_attrs["worker"] for trial in trials}) == 2
    # Trials that failed are recorded, and the study went on.
    assert {trial.number for trial in trials if 40 in trial.params.values()} == set(result.failed)
    alone = run(tmp_path / "alone", config)
    assert sorted(str(sorted(trial.params.items())) for trial in trials) == sorted(
        str(sorted(trial.params.items())) for trial in stored(tmp_path / "alone")
    )
    assert alone.best[0].metrics == result.best[0].metrics


def split(samples=200, classes=4):
    labels = torch.arange(samples) % classes
    inputs = torch.arange(samples, dtype=torch.float32)[:, None]
    return Split(inputs, labels, -1 - inputs[:40], labels[:40])


def test_a_share_of_every_class_is_held_out():
    given = split()
    held = given.hold_out(0.2)
    assert held.validation_labels.bincount().tolist() == [10] * 4
    assert held.train_labels.bincount().tolist() == [40] * 4
    parts = torch.cat([held.train_inputs, held.validation_inputs]).flatten()
    assert torch.equal(parts.sort().values, given.train_inputs.flatten())
    assert torch.equal(held.test_inputs, given.test_inputs)
    again = given.hold_out(0.2)
    assert torch.equal(again.validation_inputs, held.validation_inputs)
    assert not torch.equal(given.hold_out(0.2, seed=1).validation_inputs, held.validation_inputs)


def test_a_share_that_leaves_nothing_is_refused():
    with pytest.raises(DataError, match=r"share to validate on is 1\.0"):
        split().hold_out(1.0)
    with pytest.raises(DataError, match="4 training samples cannot give"):
        split(samples=4).hold_out(0.1)


def test_a_search_never_sees_the_test_samples(tmp_path, monkeypatch):
    seen = []

    class SeenError(Exception):
        pass

    def record(mg, tables, *, samples, **options):
        seen.append(samples)
        raise SeenError

    monkeypatch.setattr(importlib.import_module("mase_hw.search.study"), "search", record)
    config = tmp_path / "search.toml"
    config.write_text("")
    with pytest.raises(SeenError):
        command.search("digits-mlp", config=config, display=Display())
    held = dataset("digits").load().hold_out()
    assert torch.equal(seen[0].inputs, held.validation_inputs)
    assert torch.equal(seen[0].labels, held.validation_labels)
    assert torch.equal(seen[0].observed, held.train_inputs)
