"""Functions that build a model, whose arguments a search may choose."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mase_hw.errors import CaptureError, ConfigError
from mase_hw.graph.source import location_of_error
from mase_hw.models import models
from mase_hw.registry import nearest


def build(name: str | Callable[..., object], arguments: Mapping[str, object]) -> nn.Module:
    """Return a new module; the same arguments give the same weights.

    Args:
        name: a registered model, whose `build` is called, `file.py:factory`, or the function.
        arguments: keyword arguments.

    Raises:
        CaptureError: when the function cannot be found.
    """
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = _function(name)(**arguments)
    module: nn.Module = made[0] if isinstance(made, tuple) else made
    return module


def check_arguments(name: str | Callable[..., object], arguments: Collection[str]) -> None:
    """Raise ConfigError for a keyword that the function does not take."""
    parameters = inspect.signature(_function(name)).parameters
    if any(item.kind is item.VAR_KEYWORD for item in parameters.values()):
        return
    for key in arguments:
        if key not in parameters:
            known = nearest(key, parameters) if parameters else "it takes no arguments"
            title = name if isinstance(name, str) else getattr(name, "__name__", repr(name))
            raise ConfigError(f"the function that builds {title} has no argument {key!r}; {known}")


def load_factory(argument: str) -> Callable[..., Any]:
    """Return the function that `file.py:factory` names.

    Raises:
        CaptureError: when there is no such file or function, or the file cannot be imported.
    """
    file, _, name = argument.rpartition(":")
    path = Path(file)
    if not file and Path(name).is_file():
        raise CaptureError(f"{name} needs the name of a function: {name}:FACTORY")
    if not path.is_file():
        raise CaptureError(f"{file or name} is no file; MODEL file.py:factory needs one")
    # A name of its own: a file called json.py does not take the place of that module.
    title = f"_mase_hw_{path.stem}"
    spec = importlib.util.spec_from_file_location(title, path)
    if spec is None or spec.loader is None:
        raise CaptureError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[title] = module
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise CaptureError(f"{file} cannot be imported: {reason(error)}") from error
    finally:
        sys.path.pop(0)
    factory = getattr(module, name, None)
    if not callable(factory):
        names = [
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        ]
        known = nearest(name, names) if names else "it defines no function"
        raise CaptureError(f"{file} has no function {name!r}; {known}")
    found: Callable[..., Any] = factory
    return found


def reason(error: BaseException) -> str:
    """Return the kind of an error, its message, and the user's line."""
    where = location_of_error(error)
    return f"{type(error).__name__}: {error}" + (f" (at {where})" if where.file else "")


def _function(name: str | Callable[..., object]) -> Callable[..., Any]:
    if not isinstance(name, str):
        return name
    if ":" in name:
        return load_factory(name)
    if name not in models():
        raise CaptureError(f"no model is called {name!r}; {nearest(name, models())}")
    return models()[name].build
