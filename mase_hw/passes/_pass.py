"""A pass as a function of a graph and keywords, which takes the keywords as a dictionary too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Protocol, overload

from mase_hw._kinds import Record
from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.passes._elsewhere import KEYWORDS
from mase_hw.registry import nearest

P = ParamSpec("P")
# What a pass says beside its graph.
Info = Record
Result = tuple[MaseGraph, Info]


class Pass(Protocol[P]):
    """A pass: `name(graph, keyword=value)`, or `name(graph, {"keyword": value})`."""

    @overload
    def __call__(self, mg: MaseGraph, pass_args: Mapping[str, object] | None, /) -> Result: ...
    @overload
    def __call__(self, mg: MaseGraph, /, *args: P.args, **keywords: P.kwargs) -> Result: ...


def graph_pass(function: Callable[Concatenate[MaseGraph, P], Result]) -> Pass[P]:
    """Return a function of a graph and keywords as a pass.

    Raises:
        ConfigError: of the pass, for a keyword that it does not have.

    Examples:
        >>> @graph_pass
        ... def name_transform_pass(mg: MaseGraph, *, prefix: str = "") -> Result:
        ...     return mg, {"name": prefix + mg.name}
        >>> name_transform_pass(mg, {"prefix": "my_"})[1]
        {'name': 'my_model'}
    """
    return worded_pass(dict)(function)


def worded_pass(
    words: Callable[[Mapping[str, object]], Mapping[str, object]],
) -> Callable[[Callable[Concatenate[MaseGraph, P], Result]], Pass[P]]:
    """Return the decorator `graph_pass` of a function that takes other words for its keywords.

    Args:
        words: from what is given to the function's own keywords.
    """
    return lambda function: _made(function, words)


def _made(
    function: Callable[Concatenate[MaseGraph, P], Result],
    words: Callable[[Mapping[str, object]], Mapping[str, object]],
) -> Pass[P]:
    names = list(signature(function).parameters)[1:]

    @wraps(function)
    def call(
        mg: MaseGraph, pass_args: Mapping[str, object] | None = None, /, **keywords: object
    ) -> Result:
        table = keywords.pop("pass_args", None) or pass_args or {}
        if not isinstance(table, Mapping):
            raise ConfigError(f"{_title(function)} takes keywords, or a table; got {table!r}")
        given = words({**table, **keywords})
        for name in given:
            if name not in names:
                legal = nearest(str(name), names) if names else "it takes none"
                legal = KEYWORDS.get(str(name), legal)
                raise ConfigError(f"{_title(function)} has no argument {name!r}; {legal}")
        run: Any = function
        result: Result = run(mg, **given)
        return result

    return call  # type: ignore[return-value]


def _title(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", "a pass")
