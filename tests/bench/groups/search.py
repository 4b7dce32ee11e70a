"""Searches and experiments: what they cost, what they lose, and what reaches the hardware."""

from __future__ import annotations

import statistics
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mase_hw._kinds import Record, Table
from tests.bench.base import Benchmark, Row, timed

if TYPE_CHECKING:
    from mase_hw.experiments import Subject

EIGHT, FOUR = 8, 4
OVERHEAD_TRIALS = 50
WORKER_TRIALS, TRIAL_SECONDS = 18, 5.0
EXPERIMENT_SECONDS = 180
# Seconds that a trial is busy beside what it measures: the factory of the worker test waits.
WAITING = """
import time

import torch
from torch import nn


def waiting(hidden=8, seconds=0.0):
    time.sleep(seconds)
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, hidden), nn.ReLU(), nn.Linear(hidden, 3)), torch.zeros(4, 6)
"""
SEARCHED: Mapping[str, Table] = {
    "digits-mlp": {"trials": 8, "parallelism": [2, 4]},
    "mnist-cnn": {"trials": 4, "parallelism": [1, 2]},
}


class Search(Benchmark):
    """Experiments, compression, overhead, workers, and trials on RTL."""

    name: ClassVar[str] = "search"
    title: ClassVar[str] = "compression, search and experiments"

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures."""
        import torch

        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as name:
            folder = Path(name)
            yield overhead(folder)
            yield from workers(folder, quick)
            yield from precision(quick)
            yield from on_rtl(folder, quick)
            if not quick:
                yield from quick_experiments(folder)


def overhead(folder: Path) -> Row:
    """Time whole trials of a small model, and what they measure, one after the other."""
    from mase_hw.search.storage import Store, storage_url
    from mase_hw.search.task import Task
    from mase_hw.search.worker import FileLock, run_trials

    inside: list[tuple[float, float]] = []
    moments: list[tuple[float, float]] = []

    class TimedTask(Task):
        """A search that notes what its measurements take."""

        def measure(self, *args: Any) -> Any:
            with timed() as elapsed:
                found = super().measure(*args)
            inside.append((elapsed.wall, elapsed.cpu))
            return found

    mg, samples = _small()
    config = {"trials": OVERHEAD_TRIALS, "sampler": "tpe", "space": _space([3, 4, 6, 8])}
    task = TimedTask(mg, samples, config)
    study = Store(storage_url(folder / "overhead.db"), mg.name).open(
        task.directions, task.identity()
    )
    run_trials(
        task,
        study,
        FileLock(folder / "overhead.lock"),
        lambda done, total: moments.append((time.perf_counter(), time.process_time())),
    )
    wall, cpu = (
        statistics.median(
            end[clock] - start[clock] - within[clock]
            for (start, end), within in zip(pairwise(moments), inside, strict=True)
        )
        for clock in (0, 1)
    )
    return Row(
        f"overhead of a trial beside its objective (processor time), TPE, SQLite, median of "
        f"{len(inside)}",
        f"{1000 * wall:.0f} ms ({1000 * cpu:.0f} ms)",
        "<= 50 ms",
        wall <= 0.05,
    )


def workers(folder: Path, quick: bool) -> Iterator[Row]:
    """Time a study of equal trials on one worker and on two, from the first trial's start."""
    import optuna

    from mase_hw.search import search

    path = folder / "waiting.py"
    path.write_text(WAITING)
    mg, samples = _small()
    trials = WORKER_TRIALS // 3 if quick else WORKER_TRIALS
    spans = {}
    for count in (1, 2):
        place = folder / f"workers_{count}"
        # A width of its own for every trial: each is built, and waits.
        space = {
            "architecture": {
                "hidden": {"low": 4, "high": 4 + trials - 1},
                "seconds": TRIAL_SECONDS,
            }
        }
        result = search(
            mg,
            {"trials": trials, "sampler": "grid", "space": space},
            output=place,
            samples=samples,
            workers=count,
            builder=f"{path}:waiting",
        )
        done = optuna.load_study(study_name=mg.name, storage=result.storage).get_trials()
        starts = [item.datetime_start for item in done if item.datetime_start]
        ends = [item.datetime_complete for item in done if item.datetime_complete]
        assert len(done) == result.trials == trials and not result.failed
        spans[count] = (max(ends) - min(starts)).total_seconds()
    ratio = spans[1] / spans[2]
    yield Row(
        f"2 workers against 1, {trials} equal trials of {TRIAL_SECONDS:g} s and their measurement",
        f"{spans[1]:.1f} s / {spans[2]:.1f} s = {ratio:.2f}",
        ">= 1.7",
        ratio >= 1.7,
    )


def precision(quick: bool) -> Iterator[Row]:
    """Compare BERT-tiny with itself in fixed point."""
    from mase_hw.emit.flow import quantize
    from mase_hw.experiments import Subject
    from mase_hw.experiments.compression import linear_layers
    from mase_hw.training import evaluate, standard_error

    subject = Subject.load("bert-tiny", train=1024 if quick else None)
    split = subject.split
    count = 500 if quick else len(split.test_labels)
    inputs, labels = split.test_inputs[:count], split.test_labels[:count]
    exact = evaluate(subject.mg, inputs, labels)
    error = 100 * standard_error(exact, count)
    for width, points, kind in ((EIGHT, 1, "PTQ"), (FOUR, 3, "QAT")):
        mg = quantize(subject.mg, linear_layers(width), data=[split.train_inputs[:256]])
        if kind == "QAT":
            subject.fit(mg, epochs=1, learning_rate=1e-4)
        found = evaluate(mg, inputs, labels)
        yield Row(
            f"bert-tiny on snippets, {width}-bit {kind} of its linear layers, float32, "
            f"{count:,} test samples",
            f"{100 * found:.1f} %, {100 * exact:.1f} % (standard error {error:.1f} points)",
            f"within {points} point{'s' if points > 1 else ''}",
            100 * (exact - found) <= points,
        )


def on_rtl(folder: Path, quick: bool) -> Iterator[Row]:
    """Search, emit what the search wrote, and run its samples through the RTL."""
    from mase_hw.experiments import Subject

    for name in list(SEARCHED)[: 1 if quick else None]:
        subject = Subject.load(name, validation=200 if quick else None)
        yield _trial_on_rtl(subject, folder / name, SEARCHED[name])


def _trial_on_rtl(subject: Subject, folder: Path, settings: Mapping[str, object]) -> Row:
    from mase_hw.api import emit_verilog, simulate
    from mase_hw.experiments import classes
    from mase_hw.search.objective import digest

    entry = {"name": "fixed", "data_in_width": [6, 8], "weight_width": [4, 6, 8], "bias_width": 8}
    config = {
        "trials": settings["trials"],
        "sampler": "random",
        "objectives": ["accuracy", "interval_cycles"],
        "space": {
            "quantize": {"by": "type", "default": {"config": entry}},
            "parallelism": {"default": settings["parallelism"]},
        },
    }
    best = subject.search(config, folder, lambda: None).result.best[0]
    tables = tomllib.loads((folder / "best.toml").read_text())
    project = emit_verilog(
        subject.mg,
        output=folder / "rtl",
        config=tables["quantize"],
        parallelism=tables["parallelism"],
    )
    inputs, labels = subject.split.validation_inputs, subject.split.validation_labels
    report = simulate(project, inputs)
    (outputs,) = report.outputs.values()
    found = classes(outputs)
    accuracy = float((found == labels).double().mean())
    same = digest(found) == best.predictions and accuracy == best.metrics["accuracy"]
    return Row(
        f"{subject.name} emitted from a search: elements that differ, accuracy on RTL / of the "
        f"trial, {len(labels):,} samples",
        f"{report.mismatches} of {report.elements:,}, {100 * accuracy:.2f} % / "
        f"{100 * best.metrics['accuracy']:.2f} %, every class {'equal' if same else 'NOT equal'}",
        "bit-exact, equal sample for sample",
        report.bit_exact and same,
    )


def quick_experiments(folder: Path) -> Iterator[Row]:
    """Run every experiment twice with `--quick`; compare the tables and time the first."""
    from mase_hw.experiments import experiments, run_experiment

    for name, item in experiments().items():
        tables, times = [], []
        for number in (1, 2):
            place = folder / f"{name}-{number}"
            with timed() as elapsed:
                run_experiment(item, place, quick=True)
            times.append(elapsed)
            tables.append((place / f"{name}.csv").read_bytes())
        equal = tables[0] == tables[1]
        second = "the same table" if equal else "ANOTHER table"
        yield Row(
            f"experiment {name} --quick: time (processor time); a second run",
            f"{times[0].wall:.0f} s ({times[0].cpu:.0f} s); {second}",
            "<= 180 s on two cores, the same table",
            equal and times[0].wall <= EXPERIMENT_SECONDS,
        )


def _space(widths: list[int]) -> Record:
    entry = {"name": "fixed", "data_in_width": widths, "weight_width": widths, "bias_width": 8}
    return {"quantize": {"by": "type", "default": {"config": entry}}}


def _small() -> tuple[Any, Any]:
    """Return a small classifier and samples."""
    import torch

    from mase_hw.graph import trace
    from mase_hw.models import perceptron
    from mase_hw.search import Samples

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = perceptron(6, 8, 3).eval()
        inputs = torch.randn(60, 6)
    with torch.no_grad():
        labels = model(inputs).argmax(dim=1)
    return trace(model, inputs[:16], name="small"), Samples(inputs, labels, inputs[:16])
