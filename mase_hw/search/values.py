"""Values of a space: constants, dimensions, ties to other values, and conditions on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mase_hw.errors import ConfigError

RANGE_KEYS = ("low", "high", "step")
CHOICES, SAME_AS, WHEN, OTHERWISE, SHARED = "choices", "same_as", "when", "otherwise", "shared"
Value = bool | int | float | str


class Proposer(Protocol):
    """Source of values for a space: an Optuna trial."""

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        """Return one of the choices."""

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1) -> int:
        """Return an integer of a range."""

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None) -> float:
        """Return a real number."""


@dataclass(frozen=True)
class Dimension:
    """One value that is searched.

    Attributes:
        name: `<node>.<key>`, or with the table in front, as `parallelism.<node>.<key>`.
        choices: its values, None for a range.
        low: smallest value of a range.
        high: largest value.
        step: distance between values; None for a continuous range.
    """

    name: str
    choices: tuple[Value, ...] | None = None
    low: float = 0
    high: float = 0
    step: float | None = None

    @classmethod
    def parse(cls, name: str, value: Any) -> Dimension | None:
        """Return the dimension that a value of a configuration stands for; None for a constant.

        Raises:
            ConfigError: for an empty choice or a range that is none.
        """
        if isinstance(value, Mapping) and CHOICES in value:
            if not set(value) <= {CHOICES, SHARED} or not isinstance(value[CHOICES], list | tuple):
                raise ConfigError(
                    f"space: {name} is {dict(value)!r}; choices are a list, and alone"
                )
            value = value[CHOICES]
        if isinstance(value, list | tuple):
            if not value:
                raise ConfigError(f"space: {name} is an empty list; give at least one choice")
            return cls(name, tuple(value))
        if not isinstance(value, Mapping):
            return None
        unknown = sorted(set(value) - set(RANGE_KEYS))
        if unknown or not {"low", "high"} <= set(value):
            raise ConfigError(
                f"space: {name} is {dict(value)!r}; a range has the keys low and high, "
                "and step if it is not 1"
            )
        low, high, step = value["low"], value["high"], value.get("step")
        numbers = [number for number in (low, high, step) if number is not None]
        if any(
            not isinstance(number, int | float) or isinstance(number, bool) for number in numbers
        ):
            raise ConfigError(f"space: the range of {name} holds {value!r}; allowed: numbers")
        if low > high or (step is not None and step <= 0):
            raise ConfigError(f"space: the range of {name} is empty: {dict(value)!r}")
        if step is None and all(isinstance(number, int) for number in (low, high)):
            step = 1
        return cls(name, None, low, high, step)

    @property
    def values(self) -> tuple[Value, ...] | None:
        """Every value; None where the range is continuous."""
        if self.choices is not None:
            return self.choices
        if self.step is None:
            return None
        count = int((self.high - self.low) / self.step + 1e-9) + 1
        return tuple(self.low + index * self.step for index in range(count))

    def propose(self, trial: Proposer) -> Value:
        """Return the value that a trial proposes."""
        if self.choices is not None:
            names = list(map(spelled, self.choices))
            return self.choices[names.index(trial.suggest_categorical(self.name, names))]
        if all(isinstance(number, int) for number in (self.low, self.high, self.step)):
            return trial.suggest_int(
                self.name, int(self.low), int(self.high), step=int(self.step or 1)
            )
        return trial.suggest_float(self.name, self.low, self.high, step=self.step)


def spelled(value: object) -> Any:
    """Return a choice as files and trials keep it: a class or a function by its whole name."""
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Tie:
    """The value of another key.

    Attributes:
        key: of the same node, or `<node>.<key>`.
    """

    key: str


@dataclass(frozen=True)
class Condition:
    """A value that counts under a condition.

    Attributes:
        when: what keys, of the same node or `<node>.<key>`, may be for it to count.
        then: the value.
        otherwise: the value when it does not count; None leaves the key out.
    """

    when: Mapping[str, tuple[object, ...]]
    then: Item
    otherwise: Value | None = None


Item = Value | Dimension | Tie | Condition


def parse_item(name: str, value: Any, shared_name: str = "") -> Item:
    """Item of a search for a value of a node's entry.

    A list is a choice; a table has `choices`, or `low`, `high` and `step`, or `same_as`, each also
    with `when` and `otherwise`, and with `shared = true`.

    Args:
        name: of a dimension that is the node's own.
        value: as the file has it.
        shared_name: of a dimension that all nodes of the entry share.

    Raises:
        ConfigError: for a table with other keys, an empty choice, or a range that is none.
    """
    if not isinstance(value, Mapping):
        plain: Item = dimension_or(name, value)
        return plain
    rest = dict(value)
    when, otherwise = rest.pop(WHEN, None), rest.pop(OTHERWISE, None)
    if rest.pop(SHARED, False):
        name = shared_name
    item: Item
    if SAME_AS in rest:
        if len(rest) > 1 or not isinstance(rest[SAME_AS], str):
            raise ConfigError(f"space: {name} is {rest!r}; same_as is a key, and alone")
        item = Tie(rest[SAME_AS])
    else:
        item = dimension_or(name, rest)
    if when is None:
        if otherwise is not None:
            raise ConfigError(f"space: {name} has otherwise without when")
        return item
    if not isinstance(when, Mapping) or not when:
        raise ConfigError(f"space: when of {name} is {when!r}; allowed: a table of keys and values")
    wanted = {
        key: tuple(item) if isinstance(item, list | tuple) else (item,)
        for key, item in when.items()
    }
    return Condition(wanted, item, otherwise)


def dimension_or(name: str, value: Any) -> Any:
    """Return the dimension that a value of a configuration stands for, or a constant itself."""
    dimension = Dimension.parse(name, value)
    return value if dimension is None else dimension


def dimensions_of(item: Any) -> list[Dimension]:
    """Return the dimensions in a value: one, or none."""
    if isinstance(item, Condition):
        return dimensions_of(item.then)
    return [item] if isinstance(item, Dimension) else []


def references_of(item: Any) -> set[str]:
    """Return the keys that a value depends on."""
    if isinstance(item, Condition):
        return set(item.when) | references_of(item.then)
    return {item.key} if isinstance(item, Tie) else set()


def choices_of(value: Any) -> list[object]:
    """Values that an item of a file may become, as far as a list or a constant says."""
    if isinstance(value, Mapping):
        value = value.get(CHOICES, ())
    return list(value) if isinstance(value, list | tuple) else [value]
