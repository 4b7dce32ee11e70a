"""Options of the whole suite."""

from datetime import date

import pytest

from tests._turns import due, is_due


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record", action="store_true", help="write the golden files anew instead of comparing"
    )
    parser.addoption(
        "--day",
        help="day of the year whose share of the tests runs, or `all`; without it, the whole suite "
        "takes today, and files or names that are given run completely",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the day once; workers are told."""
    if config.option.day is None:
        given = config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword
        config.option.day = "all" if given else str(date.today().timetuple().tm_yday)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the tests of a day; start with the test that takes longest of all.

    That one keeps a worker busy while others run.
    """
    if config.option.day != "all":
        day = int(config.option.day)
        fast = [item.nodeid for item in items if not item.get_closest_marker("slow")]
        chosen = due(fast, day)
        kept = [
            item
            for item in items
            if item.nodeid in chosen
            or (item.get_closest_marker("slow") and is_due(item.nodeid, day))
        ]
        late = set(items) - set(kept)
        config.hook.pytest_deselected(items=list(late))
        items[:] = kept
    items.sort(key=lambda item: item.path.name != "test_conformance.py")
