"""Options of the whole suite."""

import pytest

from tests._turns import is_due


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record", action="store_true", help="write the golden files anew instead of comparing"
    )
    parser.addoption("--day", type=int, help="of the slow tests, those whose turn is on this day")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the slow tests of a day; start with the test that takes longest of all.

    That one keeps a worker busy while others run.
    """
    day = config.getoption("--day")
    if day is not None:
        late = [
            item
            for item in items
            if item.get_closest_marker("slow") and not is_due(item.nodeid, day)
        ]
        config.hook.pytest_deselected(items=late)
        others = set(late)
        items[:] = [item for item in items if item not in others]
    items.sort(key=lambda item: item.path.name != "test_conformance.py")
