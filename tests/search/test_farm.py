"""Searches on Dask workers."""

import sys

import pytest

from mase_hw.errors import SearchError
from tests.search.test_search import run, space, stored


def test_a_scheduler_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("mase_hw.search.farm.CONNECT_SECONDS", 0.3)
    with pytest.raises(SearchError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        run(tmp_path, dask="tcp://127.0.0.1:9")


def test_dask_is_optional(tmp_path, monkeypatch):
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
