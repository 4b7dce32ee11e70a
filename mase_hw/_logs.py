"""Loggers that say less for a while."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def at_level(level: int, *names: str) -> Iterator[None]:
    """Let loggers tell what is of a level or above, and give them their own levels back.

    Args:
        level: of `logging`, such as `logging.ERROR`.
        names: of the loggers.
    """
    before = [(item, item.level) for item in map(logging.getLogger, names)]
    try:
        for item, _ in before:
            item.setLevel(level)
        yield
    finally:
        for item, own in before:
            item.setLevel(own)
