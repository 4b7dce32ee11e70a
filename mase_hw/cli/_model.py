"""What a command's MODEL means: a registered name, `file.py:factory`, or a file of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw._config_file import WEIGHTS_KEY, needs_weights, read_toml
from mase_hw._kinds import Setting, Table
from mase_hw.cli._options import NO_RATE, HardwareOptions, Rate
from mase_hw.errors import CaptureError, ConfigError, DataError
from mase_hw.registry import nearest

if TYPE_CHECKING:
    from mase_hw.cli._progress import Display
    from mase_hw.data import Split
    from mase_hw.graph import MaseGraph
    from mase_hw.passes.hardware.options import Hardware


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


def load_subject(
    argument: str, display: Display, weights: Path | None = None, inputs: Path | None = None
) -> Subject:
    """Return the model that `argument` names, with the weights of a file where one is given.

    Raises:
        CaptureError: when it is none of these, or cannot be captured.
        ConfigError: for example inputs of a model that brings its own.
        DataError: when a file of weights or of inputs cannot be read, or does not fit.
    """
    if inputs is not None and not argument.endswith(".onnx"):
        raise ConfigError(f"--inputs gives examples to an .onnx file; {argument} brings its own")
    subject = _load(argument, display, inputs)
    if weights is None:
        return subject
    from mase_hw.graph.weights import load_weights

    mg = load_weights(subject.mg, weights)
    config = None if mg.is_quantized else subject.config
    return replace(subject, mg=mg, config=config, original=subject.mg)


def load_data(subject: Subject, data: str | None) -> Split:
    """Return the samples for a model: those of --data, else its own.

    Raises:
        DataError: when there are none, or they cannot be read.
    """
    if data is not None:
        from mase_hw.cli._data import load_split

        return load_split(data)
    if subject.split is None:
        raise DataError(
            f"{subject.mg.name} comes with no data; name a data set, an .npz file or "
            "file.py:factory with --data"
        )
    return subject.split


def _load(argument: str, display: Display, inputs: Path | None) -> Subject:
    if argument.endswith(".mase"):
        from mase_hw.graph import MaseGraph

        return Subject(MaseGraph.load(argument))
    if argument.endswith(".pt2"):
        from mase_hw.graph import load_pt2

        return Subject(load_pt2(Path(argument)))
    if argument.endswith(".onnx"):
        from mase_hw.cli._data import load_arrays
        from mase_hw.graph import trace

        examples = None if inputs is None else load_arrays(inputs)
        with display.stages(argument):
            return Subject(trace(argument, examples))
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


# Tables of a configuration file.
TABLES = ("quantize", "parallelism", "memory", "queues")


@dataclass(frozen=True)
class Configuration:
    """Tables of a configuration file, or options of the command line in their place.

    Attributes:
        quantize: number formats.
        parallelism: elements per beat.
        targets: rate and budget for which the parallelism is chosen.
        hardware: other options of `Hardware`.
        needs: why the number formats go with a graph of their own.
    """

    quantize: Table | None = None
    parallelism: int | str | Table | None = None
    targets: Rate = NO_RATE
    hardware: Table = field(default_factory=dict)
    needs: str | None = None

    def settle(self, subject: Subject) -> Settings:
        """Settings in force: what is open, the model decides.

        Raises:
            ConfigError: where the number formats were fitted to other weights, or for targets of a
                parallelism that is a number.
        """
        from mase_hw.passes.configuration import says_nothing
        from mase_hw.passes.hardware.options import UNROLLED, Hardware

        if self.needs is not None and not subject.mg.is_quantized:
            raise ConfigError(self.needs)
        lanes = subject.parallelism if self.parallelism is None else self.parallelism
        if self.parallelism is None and self.hardware.get("mode") == UNROLLED:
            lanes = 1
        return Settings(
            subject.config if says_nothing(self.quantize) else self.quantize,
            Hardware(_with_targets(lanes, self.targets), **self.hardware),
        )


@dataclass(frozen=True)
class Settings:
    """Number formats, where they are given, and what makes hardware of a quantised graph."""

    quantize: Table | None
    hardware: Hardware


def read_config(
    path: Path | None, parallelism: str | None = None, targets: Rate = NO_RATE, **hardware: Setting
) -> Configuration:
    """Return the tables of a configuration file, with options of the command line in their place.

    A file whose top level is itself the number formats (`by`, `default`, ...) may hold just that.
    """
    tables = {} if path is None else read_toml(path)
    weights, needs = None, None
    if "by" in tables or "default" in tables:
        tables = {"quantize": tables}
    else:
        weights = tables.pop(WEIGHTS_KEY, None)
    if path is not None and weights is not None:
        needs = f"{needs_weights(path, weights)}; give --weights {path.parent / weights}"
        needs += ", or find formats for the model's own: mase-hw fit --no-prepare"
    for name in sorted(set(tables) - set(TABLES)):
        raise ConfigError(f"{path}: unknown table {name!r}; known: {', '.join(TABLES)}")
    formats, lanes = tables.pop("quantize", None), tables.pop("parallelism", None)
    if parallelism is not None:
        lanes = _read_parallelism(parallelism)
    return Configuration(formats, lanes, targets, {**tables, **hardware}, needs)


def read_hardware(options: HardwareOptions) -> Configuration:
    """Return the tables of a configuration file, with a command's options in their place."""
    tables = read_config(options.config, options.parallelism, options.targets)
    memory = tables.hardware.get("memory", "on-chip") if options.memory is None else options.memory
    if options.memory_style is not None:
        table = memory if isinstance(memory, Mapping) else {"default": memory}
        memory = {**table, "style": options.memory_style}
    others = {
        "memory": memory,
        "multipliers": options.multipliers,
        "device": options.device,
        "mode": options.mode,
        "levels": options.levels,
    }
    return replace(tables, hardware={**tables.hardware, **others})


def _read_parallelism(value: str) -> int | str | Table:
    if value == "auto":
        return value
    if re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    if value.endswith(".toml"):
        tables = read_toml(Path(value))
        inner: Table = tables.get("parallelism", tables)
        return inner
    raise ConfigError(f"--parallelism is {value!r}; allowed: a number, auto, or a .toml file")


def _with_targets(parallelism: int | str | Table, targets: Rate) -> int | str | Table:
    values = {key: value for key, value in vars(targets).items() if value is not None}
    if not values:
        return parallelism
    if isinstance(parallelism, Mapping):
        return {**parallelism, **values}
    if parallelism != "auto":
        option = next(iter(values)).replace("_", "-")
        raise ConfigError(
            f"--{option} chooses the parallelism, and --parallelism is {parallelism}; allowed "
            "beside it: auto, or a table"
        )
    return {"default": "auto", **values}
