"""What a command's MODEL argument means: a registered name, `file.py:factory` or a `.pt2` file."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mase_hw._registry import nearest
from mase_hw.errors import CaptureError, ConfigError

if TYPE_CHECKING:
    from mase_hw.cli._progress import Display
    from mase_hw.data import Split
    from mase_hw.graph import MaseGraph


@dataclass(frozen=True)
class Subject:
    """A captured model with what a command may need of it.

    Attributes:
        mg: the graph.
        split: its data set, when it has one.
        config: its number formats, when it names them.
        parallelism: its default parallelism.
    """

    mg: MaseGraph
    split: Split | None = None
    config: Mapping[str, Any] | None = None
    parallelism: int | str = 1


def load_subject(argument: str, display: Display) -> Subject:
    """Return the model that `argument` names.

    Raises:
        CaptureError: when it is none of the three kinds, or cannot be captured.
    """
    if argument.endswith(".pt2"):
        from mase_hw.graph import load_pt2

        return Subject(load_pt2(Path(argument)))
    if ":" in argument:
        return _from_factory(argument)
    return _from_registry(argument, display)


def _from_registry(name: str, display: Display) -> Subject:
    from mase_hw.graph import trace
    from mase_hw.models import models

    if name not in models():
        if name.endswith(".py"):
            raise CaptureError(
                f"{name} needs the name of a function: {name}:FACTORY, which returns "
                "(module, example_inputs)"
            )
        raise CaptureError(
            f"no model is called {name!r}; {nearest(name, models())}; or give file.py:factory, "
            "a function that returns (module, example_inputs), or a .pt2 file of torch.export.save"
        )
    model = models()[name]
    with display.progress(f"training {name}") as advance:
        trained = model.load(advance)
    mg = trace(trained.module, trained.example_inputs, name=re.sub(r"\W", "_", name))
    return Subject(mg, trained.split, model.config, model.parallelism)


def _from_factory(argument: str) -> Subject:
    from torch import nn

    from mase_hw.graph import trace

    file, _, name = argument.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise CaptureError(f"{file} is no file; MODEL file.py:factory needs one")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CaptureError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise CaptureError(f"{file} cannot be imported: {_reason(error)}") from error
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
    try:
        result = factory()
    except (Exception, SystemExit) as error:
        raise CaptureError(f"{argument} failed: {_reason(error)}") from error
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], nn.Module):
        raise CaptureError(
            f"{argument} returned {_kind(result)}; it must return (module, example_inputs), "
            "a torch.nn.Module and the tensors that it takes"
        )
    return Subject(trace(result[0], result[1], name=re.sub(r"\W", "_", name)))


def _reason(error: BaseException) -> str:
    from mase_hw.graph.source import location_of_error

    where = location_of_error(error)
    return f"{type(error).__name__}: {error}" + (f" (at {where})" if where.file else "")


def _kind(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(item).__name__ for item in value)})"
    return type(value).__name__


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file's tables.

    Raises:
        ConfigError: when there is no such file, or it is not TOML.
    """
    import tomllib

    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


@dataclass(frozen=True)
class ConfigFile:
    """The tables of a configuration file; None where it has none."""

    quantize: Mapping[str, Any] | None = None
    parallelism: Mapping[str, Any] | None = None
    memory: str | Mapping[str, Any] | None = None


def read_config(path: Path | None) -> ConfigFile:
    """Return the tables of a configuration file.

    A file whose top level is itself the number formats (`by`, `default`, ...) may hold just that.
    """
    if path is None:
        return ConfigFile()
    tables = read_toml(path)
    if "by" in tables or "default" in tables:
        return ConfigFile(tables)
    known = [item.name for item in fields(ConfigFile)]
    unknown = sorted(set(tables) - set(known))
    if unknown:
        raise ConfigError(f"{path}: unknown table {unknown[0]!r}; known: {', '.join(known)}")
    return ConfigFile(**tables)


def read_parallelism(value: str) -> int | str | Mapping[str, Any]:
    """Return a number, `auto`, or the table of a TOML file."""
    if value == "auto":
        return value
    if value.lstrip("-").isdigit():
        return int(value)
    if value.endswith(".toml"):
        tables = read_toml(Path(value))
        inner: Mapping[str, Any] = tables.get("parallelism", tables)
        return inner
    raise ConfigError(f"--parallelism is {value!r}; allowed: a number, auto, or a .toml file")
