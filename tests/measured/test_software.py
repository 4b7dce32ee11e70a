"""The figures of the software half: what they count, and that they can fail."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.graph import MaseGraph, trace
from tests.bench import benchmarks, random_spaces, workflow
from tests.bench.groups.software import PARTS
from tests.bench.killed import killed_rows

pytestmark = pytest.mark.full


def test_parts_are_measured_by_name(monkeypatch):
    asked = []
    for name in PARTS:
        monkeypatch.setitem(PARTS, name, lambda quick, name=name: asked.append((name, quick)) or [])
    software = benchmarks()["software"]
    list(software.only(["killed", "spaces"]).rows(quick=True))
    assert asked == [("killed", True), ("spaces", True)]
    asked.clear()
    list(software.rows(quick=True))
    assert [name for name, _ in asked] == [
        name for name in PARTS if name not in ("reviews", "language-model")
    ]
    with pytest.raises(ConfigError, match="did you mean spaces"):
        software.only(["space"])


def test_a_step_that_does_nothing_is_named(monkeypatch):
    (row,) = workflow.workflow_rows(("DistilBertForSequenceClassification",))
    assert row.met, row.measured
    assert row.measured == "1 of 1"
    monkeypatch.setattr(workflow, "_quantized", lambda mg, batches: mg.copy())
    (row,) = workflow.workflow_rows(("DistilBertForSequenceClassification",))
    assert not row.met
    assert "quantize does not do what it should" in row.measured


def test_what_is_not_emitted_is_counted(monkeypatch):
    (row,) = random_spaces.random_space_rows(4)
    assert row.met, row.measured

    def refuse(*args, **options):
        raise UnsupportedError("a stream is too wide")

    monkeypatch.setattr("mase_hw.emit_verilog", refuse)
    (row,) = random_spaces.random_space_rows(4)
    assert not row.met
    assert "a stream is too wide" in row.measured


def test_what_a_search_says_is_told_apart():
    class Summed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(6, 3)

        def forward(self, x):
            return torch.lgamma(self.first(x))

    mg = trace(Summed(), torch.randn(8, 6), name="summed")
    assert isinstance(mg, MaseGraph)
    entry = {"name": "fixed", "data_in_width": [4, 8], "weight_width": 8, "bias_width": 8}
    space = {"quantize": {"by": "type", "linear": {"config": entry}}}
    config = {"trials": 1, "sampler": "random", "objectives": ["average_bits"], "space": space}
    outcome, reason = random_spaces.outcome_of(mg, config)
    assert outcome == random_spaces.LACKING
    assert "lgamma" in reason
    config["objectives"] = ["interval_cycles"]
    outcome, reason = random_spaces.outcome_of(mg, config)
    assert outcome == random_spaces.REFUSED


def test_workers_of_a_killed_search_are_counted():
    workers, folders = killed_rows()
    assert workers.met, workers.measured
    assert workers.measured.startswith("0 of 2")
    assert folders.met


def test_the_slower_method_and_the_closed_gap_are_told(monkeypatch):
    times = iter([0.0, 60.0, 660.0, 700.0, 3_000.0])

    def measured(folder, scope, progress):
        for done in range(len(scope.runs) + 1):
            progress(done + 1, 5)
        rows = [("float", "nearest", 32.0, 60.0, 5.0, "")]
        for (name, method), closed in zip(scope.runs, ["", "82 ± 3", "", "40 ± 3"], strict=True):
            rows.append((name, method, 3.25, 90.0, 7.0, closed))
        return SimpleNamespace(rows=rows)

    monkeypatch.setattr("mase_hw.experiments.perplexity.measure", measured)
    monkeypatch.setattr("tests.bench.groups.software.time.perf_counter", lambda: next(times))
    rows = list(PARTS["language-model"](False))
    assert [row.met for row in rows[:-1]] == [None, None, True, None, False]
    # From the third figure to the last one: 2,300 s.
    assert rows[-1].measured.startswith("38.3 min")
    assert not rows[-1].met
