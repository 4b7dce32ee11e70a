"""Random modules over all functions of torch and `torch.nn.functional`, with odd arguments."""

from __future__ import annotations

import inspect
import random
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import get_testing_overrides

TRIES = 60
SIZES = (1, 2, 3, 4, 5, 8)
# Of a function's own arguments, those whose values are words.
WORDS = {
    "mode": ("nearest", "bilinear", "linear", "bicubic", "area", "nearest-exact", "constant",
             "reflect", "replicate", "circular", "mean", "sum", "max", "floor"),
    "reduction": ("mean", "sum", "none"),
    "approximate": ("none", "tanh"),
    "rounding_mode": (None, "floor", "trunc"),
    "padding": ("same", "valid"),
    "dtype": (torch.float64, torch.float16, torch.int64, torch.bool),
}  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    0, 1, 2, 3, -1, -2, 5, 17, 0.5, -0.5, 0.1, 1.5, 2.0, float("inf"), -float("inf"), float("nan"),
    1e30, 1e-30, None, True, False,
)  # fmt: skip
# They draw numbers, write to what they are given, or give an object of Python's.
LEFT_OUT = ("out", "_stacklevel", "inplace", "return_indices", "training", "generator", "names")


class Drawn(nn.Module):
    """A function of what a layer makes of the input, with constants beside it."""

    def __init__(self, shape: tuple[int, ...], call: Callable[[Tensor], Any], text: str) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(shape[-1]))
        self.call, self.text = call, text

    def forward(self, x: Tensor) -> Any:
        """Return the function's result, of several the first."""
        result = self.call(x * self.scale)
        return result[0] if isinstance(result, tuple | list) else result

    def __repr__(self) -> str:
        return self.text


@cache
def functions() -> dict[str, tuple[Callable[..., Any], inspect.Signature]]:
    known = get_testing_overrides()
    found = {}
    for space, title in ((torch, "torch"), (functional, "functional")):
        for name in sorted(dir(space)):
            function = getattr(space, name)
            own = name.startswith("_") or name.endswith("_") or not callable(function)
            if own or function not in known:
                continue
            found[f"{title}.{name}"] = function, inspect.signature(known[function])
    return found


def draw(chance: random.Random) -> tuple[Drawn, Tensor]:
    names = list(functions())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while True:
            name = chance.choice(names)
            for _ in range(TRIES):
                shape = tuple(chance.choice(SIZES) for _ in range(chance.randrange(2, 6)))
                model = _module(name, shape, chance)
                example = torch.randn(shape, generator=_generator(chance))
                if model is not None and _runs(model, example):
                    return model, example


def _runs(model: Drawn, example: Tensor) -> bool:
    try:
        with torch.no_grad():
            result = model.eval()(example)
    except Exception:
        return False
    return isinstance(result, Tensor)


def _module(name: str, shape: tuple[int, ...], chance: random.Random) -> Drawn | None:
    function, signature = functions()[name]
    taken: list[Any] = []
    given: dict[str, Any] = {}
    stream = False
    for item in signature.parameters.values():
        if item.name in LEFT_OUT or item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD):
            continue
        needed = item.default is item.empty
        if not needed and chance.random() < 0.6:
            continue
        value = _STREAM if needed and not stream else _value(item.name, needed, shape, chance)
        stream = stream or value is _STREAM
        if needed and not given:
            taken.append(value)
        else:
            given[item.name] = value
    if not stream:
        return None

    def call(x: Tensor) -> Any:
        filled = [x if value is _STREAM else value for value in taken]
        named = {key: x if value is _STREAM else value for key, value in given.items()}
        return function(*filled, **named)

    told = [_told(value) for value in taken]
    told += [f"{key}={_told(value)}" for key, value in given.items()]
    return Drawn(shape, call, f"{name}({', '.join(told)}) of {list(shape)}")


_STREAM = object()


def _value(name: str, needed: bool, shape: tuple[int, ...], chance: random.Random) -> Any:
    if name in WORDS and chance.random() < 0.7:
        return chance.choice(WORDS[name])
    kind = chance.random()
    if needed and kind < 0.15:
        return _STREAM
    if name.startswith(("weight", "bias", "running", "other", "target", "mat", "mask", "vec")):
        kind += 0.4
    if kind > 0.7:
        return _constant(shape, chance)
    if kind > 0.45:
        return tuple(
            chance.choice((0, 1, 2, 3, -1, shape[-1])) for _ in range(chance.randrange(1, 5))
        )
    return chance.choice((*NUMBERS, shape[-1], shape[1]))


def _constant(shape: tuple[int, ...], chance: random.Random) -> Tensor:
    sizes = chance.choice([shape, shape[1:], shape[-1:], shape[1:2], ()])
    if chance.random() < 0.4:
        sizes = tuple(chance.choice(SIZES) for _ in range(chance.randrange(5)))
    values = torch.randn(sizes, generator=_generator(chance))
    return chance.choice([values, values, values > 0, (values * 2).long().abs()])


def _generator(chance: random.Random) -> torch.Generator:
    return torch.Generator().manual_seed(chance.randrange(1 << 31))


def _told(value: Any) -> str:
    if value is _STREAM:
        return "x"
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, Tensor) else repr(value)
