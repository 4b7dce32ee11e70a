"""What a command's MODEL means: a registered name, `file.py:factory`, or a file of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw._config_file import WEIGHTS_KEY, needs_weights, read_toml
from mase_hw._kinds import Table
from mase_hw.errors import CaptureError, ConfigError
from mase_hw.registry import nearest

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
        original: the model before the weights of a file took the place of its own.
    """

    mg: MaseGraph
    split: Split | None = None
    config: Table | None = None
    parallelism: int | str = 1
    original: MaseGraph | None = None


def load_subject(argument: str, display: Display, weights: Path | None = None) -> Subject:
    """Return the model that `argument` names, with the weights of a file where one is given.

    Raises:
        CaptureError: when it is none of these, or cannot be captured.
        DataError: when a file of weights cannot be read, or does not fit.
    """
    subject = _load(argument, display)
    if weights is None:
        return subject
    from mase_hw.graph.weights import load_weights

    mg = load_weights(subject.mg, weights)
    config = None if mg.is_quantized else subject.config
    return replace(subject, mg=mg, config=config, original=subject.mg)


def _load(argument: str, display: Display) -> Subject:
    if argument.endswith(".mase"):
        from mase_hw.graph import MaseGraph

        return Subject(MaseGraph.load(argument))
    if argument.endswith(".pt2"):
        from mase_hw.graph import load_pt2

        return Subject(load_pt2(Path(argument)))
    if argument.endswith(".onnx"):
        from mase_hw.graph import trace

        with display.stages(argument):
            return Subject(trace(argument))
    if ":" in argument:
        with display.stages(argument):
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
            "a function that returns (module, example_inputs), a .pt2 file of torch.export.save, "
            "an .onnx file, or a .mase file"
        )
    model = models()[name]
    with display.progress(f"training {name}") as advance:
        trained = model.load(advance)
    with display.stages(name):
        mg = trace(trained.module, trained.example_inputs, name=re.sub(r"\W", "_", name))
    return Subject(mg, trained.split, model.config, model.parallelism)


def _from_factory(argument: str) -> Subject:
    from torch import nn

    from mase_hw.graph import trace
    from mase_hw.models.builder import load_factory, reason

    factory = load_factory(argument)
    try:
        result = factory()
    except (Exception, SystemExit) as error:
        raise CaptureError(f"{argument} failed: {reason(error)}") from error
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], nn.Module):
        raise CaptureError(
            f"{argument} returned {_kind(result)}; it must return (module, example_inputs), "
            "a torch.nn.Module and the tensors that it takes"
        )
    name = argument.rpartition(":")[2]
    return Subject(trace(result[0], result[1], name=re.sub(r"\W", "_", name)))


def _kind(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(item).__name__ for item in value)})"
    return type(value).__name__


@dataclass(frozen=True)
class ConfigFile:
    """The tables of a configuration file; None where it has none.

    Attributes:
        needs: why its number formats go with a graph of their own.
    """

    quantize: Table | None = None
    parallelism: int | str | Table | None = None
    memory: str | Table | None = None
    queues: Mapping[str, int] | None = None
    needs: str | None = None

    def settle(
        self,
        subject: Subject,
        parallelism: int | str | Mapping[str, object] | None = None,
        memory: str | None = None,
        memory_style: str | None = None,
    ) -> Settings:
        """Settings in force: the command line's, else the file's, else the model's.

        Raises:
            ConfigError: where the number formats were found for other weights.
        """
        from mase_hw.graph.memory import ON_CHIP
        from mase_hw.passes.configuration import says_nothing

        if self.needs is not None and not subject.mg.is_quantized:
            raise ConfigError(self.needs)
        where = next(item for item in (memory, self.memory, ON_CHIP) if item is not None)
        if memory_style is not None:
            table = where if isinstance(where, Mapping) else {"default": where}
            where = {**table, "style": memory_style}
        return Settings(
            subject.config if says_nothing(self.quantize) else self.quantize,
            next(
                item
                for item in (parallelism, self.parallelism, subject.parallelism)
                if item is not None
            ),
            where,
            self.queues,
        )


@dataclass(frozen=True)
class Settings:
    """Number formats, where they are given, and what makes hardware of a quantised graph."""

    quantize: Table | None
    parallelism: int | str | Table
    memory: str | Table
    queues: Mapping[str, int] | None


def read_config(path: Path | None) -> ConfigFile:
    """Return the tables of a configuration file.

    A file whose top level is itself the number formats (`by`, `default`, ...) may hold just that.
    """
    if path is None:
        return ConfigFile()
    tables = read_toml(path)
    if "by" in tables or "default" in tables:
        return ConfigFile(tables)
    weights, needs = tables.pop(WEIGHTS_KEY, None), None
    if weights is not None:
        needs = f"{needs_weights(path, weights)}; give --weights {path.parent / weights}"
        needs += ", or find formats for the model's own: mase-hw fit --no-prepare"
    known = [item.name for item in fields(ConfigFile) if item.name != "needs"]
    unknown = sorted(set(tables) - set(known))
    if unknown:
        raise ConfigError(f"{path}: unknown table {unknown[0]!r}; known: {', '.join(known)}")
    return ConfigFile(**tables, needs=needs)


def read_parallelism(value: str) -> int | str | Table:
    """Return a number, `auto`, or the table of a TOML file."""
    if value == "auto":
        return value
    if re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    if value.endswith(".toml"):
        tables = read_toml(Path(value))
        inner: Table = tables.get("parallelism", tables)
        return inner
    raise ConfigError(f"--parallelism is {value!r}; allowed: a number, auto, or a .toml file")


def with_targets(
    parallelism: int | str | Mapping[str, object], targets: Mapping[str, float | None]
) -> int | str | Table:
    """Return a parallelism that asks for targets too.

    Raises:
        ConfigError: for targets of a parallelism that is a number.
    """
    given = {key: value for key, value in targets.items() if value is not None}
    if not given:
        return parallelism
    if isinstance(parallelism, Mapping):
        return {**parallelism, **given}
    if parallelism != "auto":
        option = next(iter(given)).replace("_", "-")
        raise ConfigError(
            f"--{option} chooses the parallelism, and --parallelism is {parallelism}; allowed "
            "beside it: auto, or a table"
        )
    return {"default": "auto", **given}
