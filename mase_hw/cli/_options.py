"""Commands from signatures: options from keyword arguments and classes, help from docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from mase_hw.cli._files import files_of

Command = TypeVar("Command", bound=Callable[..., None])

# Groups of commands in the help.
HARDWARE, CHOICES = "From a model to hardware", "Formats, parallelism, cost"
MEASURE = "Look up and measure"
MODEL_HELP = "A registered name, file.py:factory (runs the file), or a .pt2, .onnx or .mase file."

# Kinds of arguments and options; help that is not here is in the docstring of the command or class.
Model = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
Project = Annotated[Path, typer.Argument(metavar="DIR", help="An emitted project.")]
Output = Annotated[Path | None, typer.Option("--output", "-o")]
Config = Annotated[
    Path | None, typer.Option(help="TOML file with number formats, parallelism, memory and queues.")
]
Parallelism = Annotated[
    str | None,
    typer.Option(help="Elements per beat: a number, auto, or a TOML file with one per node."),
]
Reuse = Annotated[
    bool,
    typer.Option("--reuse", help="Run equal layers one after the other on the hardware of one."),
]
Device = Annotated[
    str,
    typer.Option(
        help="Device whose DSP blocks modules instance: generic (none) or xcup (UltraScale+)."
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(help="Weights for MODEL: .mase (a whole graph), .safetensors or .pt."),
]
Examples = Annotated[
    Path | None,
    typer.Option("--inputs", metavar="FILE", help="Examples of an .onnx MODEL: .npz by input."),
]
Data = Annotated[
    str | None, typer.Option(help="Samples: a data set's name, an .npz file or file.py:factory.")
]
Count = Annotated[int, typer.Option(min=1)]
OptionalCount = Annotated[int | None, typer.Option(min=1)]
Probability = Annotated[float, typer.Option(min=0.0, max=0.99)]
Megahertz = Annotated[float | None, typer.Option(metavar="MHZ")]
Decibels = Annotated[float | None, typer.Option(metavar="DB")]
File = Annotated[Path | None, typer.Option(metavar="FILE")]


@dataclass(frozen=True)
class Gate:
    """Least agreement with the float model.

    Attributes:
        min_sqnr: fail where an output agrees with the float model to less, in dB.
        agreement: whose dB: channel, the worst channel's about its mean, or tensor, the whole
            one's.
    """

    min_sqnr: Decibels = None
    agreement: Annotated[str, typer.Option(metavar="KIND")] = "channel"


@dataclass(frozen=True)
class Rate:
    """Rate for which the parallelism is chosen.

    Attributes:
        target_interval: cycles an inference, at most.
        target_fps: inferences a second, at least; needs --clock.
        clock: clock rate of the FPGA, for --target-fps.
    """

    target_interval: int | None = None
    target_fps: float | None = None
    clock: Megahertz = None


NO_RATE = Rate()


@dataclass(frozen=True)
class Targets(Rate):
    """Rate and budget for which the parallelism is chosen.

    Attributes:
        max_lut: look-up tables, at most.
        max_dsp: DSP blocks, at most.
        max_bram: block RAMs, at most.
    """

    max_lut: int | None = None
    max_dsp: int | None = None
    max_bram: float | None = None


@dataclass(frozen=True)
class HardwareOptions:
    """Hardware of a model; what is left open, the configuration file or the model decides.

    Attributes:
        multipliers: with --parallelism auto: multipliers, at most.
        targets: with --parallelism auto
        memory: where weights lie: on-chip, or external behind one AXI4 read port.
        memory_style: what holds constants: auto, logic, distributed or block memory.
        mode: folded, or unrolled: all constants in logic, an inference a cycle.
        levels: with --mode unrolled: adders of a stage.
    """

    config: Config = None
    parallelism: Parallelism = None
    multipliers: Count = 64
    targets: Targets = Targets()
    memory: str | None = None
    memory_style: str | None = None
    device: Device = "generic"
    reuse: Reuse = False
    mode: Annotated[str, typer.Option(metavar="MODE")] = "folded"
    levels: Count = 2


APP = typer.Typer(
    name="mase-hw",
    help="From a PyTorch model to SystemVerilog that equals the quantized model on every bit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@dataclass(frozen=True)
class Checks:
    """Checks of a project after it is written.

    Attributes:
        simulate: simulate, and compare every output bit.
        engine: simulation engine: native or cocotb.
        samples: inferences to simulate (default: the test set).
        stall: probability that a port stalls in a cycle.
        synth: also synthesize with Yosys for a family: xcup, ecp5, ...
    """

    simulate: bool = False
    engine: str = "native"
    samples: OptionalCount = None
    stall: Probability = 0.0
    synth: str | None = None


def command(panel: str | None = None, app: typer.Typer = APP) -> Callable[[Command], Command]:
    """Decorator that adds a function to an application, as the command of its name.

    Positional parameters become arguments and keyword-only ones options; of a parameter whose type
    is a dataclass, each field becomes an option. Their help is what the docstrings of the function
    and the class say of them; what is said of such a parameter stands before the help of its
    fields.

    Args:
        panel: group of the command in the help.
        app: application or group of commands.
    """

    def add(function: Command) -> Command:
        @wraps(function)
        def run(**values: Any) -> None:
            with files_of(values):
                _call(function, values)

        parameters = [*_parameters(function)]
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        name = function.__name__.replace("_", "-")
        app.command(name, help=_documentation(function)[0], rich_help_panel=panel)(run)
        return function

    return add


def _call(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    hints = get_type_hints(function)
    return function(
        **{
            name: _call(hints[name], values) if is_dataclass(hints[name]) else values[name]
            for name in inspect.signature(function).parameters
        }
    )


def _parameters(owner: Callable[..., Any], condition: str = "") -> Iterator[inspect.Parameter]:
    hints, helps = get_type_hints(owner, include_extras=True), _documentation(owner)[1]
    parameters = inspect.signature(owner).parameters
    for name in helps.keys() - parameters.keys():
        raise TypeError(f"{owner.__name__} describes {name}, which is no option of it")
    for parameter in parameters.values():
        hint, text = hints[parameter.name], helps.get(parameter.name, "")
        if inspect.isclass(hint) and is_dataclass(hint):
            yield from _parameters(hint, text)
            continue
        kind, *declared = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        if declared:
            info = copy(declared[0])
        elif parameter.kind is not parameter.KEYWORD_ONLY and inspect.isfunction(owner):
            info = typer.Argument(metavar=parameter.name.upper())
        elif kind is bool and parameter.default is False:
            info = typer.Option(f"--{parameter.name.replace('_', '-')}")
        else:
            info = typer.Option()
        if text:
            text = f"{condition}: {text}" if condition else text
            info.help = (text[0].upper() + text[1:]).replace("`", "")
        yield parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=Annotated[kind, info])


def _documentation(owner: Any) -> tuple[str, dict[str, str]]:
    """Docstring before its sections, and its descriptions of parameters, inherited ones too."""
    summary, texts = "", dict[str, str]()
    owners = [*reversed(inspect.getmro(owner))] if inspect.isclass(owner) else [owner]
    for item in owners:
        text = inspect.cleandoc(item.__doc__ or "")
        summary, *sections = re.split(r"\n\n(?:Options|Attributes):\n", text)
        for name, text in re.findall(r"(?m)^    (\w+): (.*(?:\n {5,}.*)*)", "\n".join(sections)):
            texts[name] = " ".join(text.split())
    return summary, texts
