"""Which implementation runs: the best that is available for the operation and the device.

Set `MASE_HW_KERNELS=name`, or use `with use(name):`, to ask for one implementation.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from mase_hw.errors import ConfigError
from mase_hw.registry import nearest

logger = logging.getLogger(__name__)

# Best first. `vectorized` runs everywhere; `reference` is the definition, asked for by name.
PREFERENCE = ("cuda", "triton", "cpu", "vectorized", "reference")
OPERATIONS = ("quantize", "dequantize", "linear", "linear_both")
VARIABLE = "MASE_HW_KERNELS"

_asked_for: ContextVar[str | None] = ContextVar("mase_hw_kernels", default=None)


@dataclass(frozen=True)
class Implementation:
    """One file of this folder.

    Attributes:
        name: the file's stem, which `use` and `MASE_HW_KERNELS` take.
        devices: device types it runs on.
        operations: operations it offers.
        reason: why it cannot run here; None when it can.
    """

    name: str
    devices: tuple[str, ...]
    operations: tuple[str, ...]
    reason: str | None

    def function(self, operation: str) -> Callable[..., Any]:
        """Return the function of `operation`."""
        function: Callable[..., Any] = getattr(_module(self.name), operation)
        return function

    def serves(self, operation: str, device_type: str) -> bool:
        """Return whether it runs `operation` on the device type, on this machine."""
        return operation in self.operations and device_type in self.devices and not self.reason


@cache
def implementations() -> tuple[Implementation, ...]:
    """Return every implementation, best first, with the reason where one cannot run here."""
    return tuple(_describe(name) for name in PREFERENCE)


def selected(operation: str, device: torch.device | str = "cpu") -> Implementation:
    """Return the implementation that runs `operation` on `device` now.

    Raises:
        ConfigError: when an implementation was asked for that does not exist or cannot run here.
    """
    device_type = torch.device(device).type
    asked_for = _asked_for.get() or os.environ.get(VARIABLE)
    if asked_for:
        _check_name(asked_for)
    return _select(operation, device_type, asked_for)


@contextmanager
def use(name: str) -> Iterator[None]:
    """Run MXINT8 operations on the implementation `name` inside the block.

    Operations that it does not offer (`linear_both` of `cuda`, say) take the best that does.

    Raises:
        ConfigError: for an unknown name, or one that cannot run on this machine.
    """
    _check_name(name)
    reason = _by_name(name).reason
    if reason:
        raise ConfigError(f"mxint8 kernels: {name!r} cannot run here: {reason}")
    token = _asked_for.set(name)
    try:
        yield
    finally:
        _asked_for.reset(token)


@cache
def _select(operation: str, device_type: str, asked_for: str | None) -> Implementation:
    candidates = [each for each in implementations() if each.serves(operation, device_type)]
    if not candidates:
        raise ConfigError(
            f"mxint8 {operation}: nothing runs on {device_type!r}; allowed devices: cpu, cuda"
        )
    if asked_for and operation in _by_name(asked_for).operations:
        wanted = [each for each in candidates if each.name == asked_for]
        if not wanted:
            reason = _by_name(asked_for).reason or f"it does not serve {device_type!r}"
            raise ConfigError(f"mxint8 kernels: {asked_for!r} was asked for, but {reason}")
        candidates = wanted
    logger.info("mxint8 %s on %s runs on %r", operation, device_type, candidates[0].name)
    return candidates[0]


def _check_name(name: str) -> None:
    if name not in PREFERENCE:
        raise ConfigError(
            f"no mxint8 implementation is called {name!r}; {nearest(name, PREFERENCE)}"
        )


def _by_name(name: str) -> Implementation:
    return next(each for each in implementations() if each.name == name)


def _describe(name: str) -> Implementation:
    module = _module(name)
    operations = tuple(each for each in OPERATIONS if hasattr(module, each))
    return Implementation(name, module.DEVICE_TYPES, operations, module.unavailable())


def _module(name: str) -> Any:
    return importlib.import_module(f"mase_hw.kernels.mxint.{name}")
