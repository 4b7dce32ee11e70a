"""Progress of long steps: a step names itself, and listeners show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def stage(what: str) -> None:
    """Say what begins now, such as `number formats`."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(what)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a function with every stage that begins in this context."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def within(what: str) -> Iterator[None]:
    """Say what begins now, and stages that begin in this context as parts of it."""
    stage(what)
    listener = _LISTENER.get()
    if listener is None:
        yield
        return
    with listening(lambda part: listener(f"{what}: {part}")):
        yield
