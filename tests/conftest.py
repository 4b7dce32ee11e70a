"""Two tiers, shards of the second, and workers that share what a file sets up."""

import gc
from functools import cache

import pytest

from tests._tiers import ROOT, Shard, beyond_first, distances

# What imports and collection create stays: to look through it for garbage again and again took a
# fifth of the processor time of the first tier.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record", action="store_true", help="write the golden files anew instead of comparing"
    )
    parser.addoption(
        "--shard", type=Shard.parse, metavar="K/N", help="the K-th of N parts of what is selected"
    )
    parser.addoption(
        "--touched",
        metavar="BASE",
        help="tests whose imports reach a file that differs from the commit BASE, nearest first",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of a shard, and those that a change touches; start with what is longest."""
    for item in beyond_first(items):
        item.add_marker("full")
    # One that sets up all operators keeps a worker busy while others run.
    items.sort(key=lambda item: item.path.name != "test_conformance.py")
    selected = list(items)
    if (shard := config.option.shard) is not None:
        selected = [item for item in selected if shard.holds(item.nodeid)]
    if (base := config.option.touched) is not None:
        near = distances(base)
        selected = [item for item in selected if item.path in near]
        selected.sort(key=lambda item: near[item.path])
        config.option.loadscopereorder = False
    config.hook.pytest_deselected(items=list(set(items) - set(selected)))
    items[:] = selected


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@cache
def _shares_setup(path: str) -> bool:
    return 'scope="module"' in (ROOT / path).read_text()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Give a file with fixtures of its own to one worker, and test by test what has none."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return path if _shares_setup(path) else nodeid

    return Scheduling(config, log)
