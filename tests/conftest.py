"""Options of the whole suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record", action="store_true", help="write the golden files anew instead of comparing"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the test that takes longest: it keeps one worker busy while others run."""
    items.sort(key=lambda item: item.path.name != "test_conformance.py")
