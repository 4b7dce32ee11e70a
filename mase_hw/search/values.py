"""Values of a space: constants, dimensions, ties to other values, and conditions on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mase_hw.errors import ConfigError

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

RANGE_KEYS = ("low", "high", "step")
CHOICES, SAME_AS, WHEN, OTHERWISE, SHARED = "choices", "same_as", "when", "otherwise", "shared"
Value = bool | int | float | str


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

    @property
    def values(self) -> tuple[Value, ...] | None:
        """Every value; None where the range is continuous."""
        if self.choices is not None:
            return self.choices
        if self.step is None:
            return None
        count = int((self.high - self.low) / self.step + 1e-9) + 1
        return tuple(self.low + index * self.step for index in range(count))

    def propose(self, trial: BaseTrial) -> Value:
        """Return the value that a trial proposes."""
        if self.choices is not None:
            names = list(map(spelled, self.choices))
            return self.choices[names.index(trial.suggest_categorical(self.name, names))]
        if all(isinstance(number, int) for number in (self.low, self.high, self.step)):
            return trial.suggest_int(
                self.name, int(self.low), int(self.high), step=int(self.step or 1)
            )
        return trial.suggest_float(self.name, self.low, self.high, step=self.step)

    def nearest(self, wanted: object) -> Value | None:
        """Return the value that comes nearest to another one; None where none compares."""
        values = self.values
        if values is not None and wanted in values:
            return values[values.index(wanted)]
        if isinstance(wanted, bool) or not isinstance(wanted, int | float):
            return None
        if values is None:
            return min(max(float(wanted), self.low), self.high)
        numbers = [v for v in values if isinstance(v, int | float) and type(v) is not bool]
        return min(numbers, key=lambda item: abs(item - wanted), default=None)


def spelled(value: object) -> Any:
    """Return a choice as files and trials keep it: a class or a function by its whole name."""
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Tie:
    """The value of another key: of the same node, or `<node>.<key>`."""

    key: str


@dataclass(frozen=True)
class Condition:
    """A value that counts under a condition.

    Attributes:
        when: the values of keys, of the same node or `<node>.<key>`, for which it counts.
        then: the value.
        otherwise: the value when it does not count; None leaves the key out.
    """

    when: Mapping[str, tuple[object, ...]]
    then: Item
    otherwise: Value | None = None


Item = Value | Dimension | Tie | Condition


def parse_item(name: str, value: Any, shared_name: str = "") -> Any:
    """Item of a search for a value of a node's entry.

    A list is a choice; a table has `choices`, or `low`, `high` and `step`, or `same_as`, each also
    with `when` and `otherwise`, and with `shared = true`: then it has the shared name.

    Raises:
        ConfigError: for a table with other keys, an empty choice, or a range that is none.
    """
    if not isinstance(value, Mapping):
        return dimension_or(name, value)
    rest = dict(value)
    when, otherwise = rest.pop(WHEN, None), rest.pop(OTHERWISE, None)
    if rest.pop(SHARED, False):
        name = shared_name
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
    """Return the dimension that a value of a configuration stands for, or a constant itself.

    Raises:
        ConfigError: for an empty choice or a range that is none.
    """
    if isinstance(value, Mapping) and CHOICES in value:
        if not set(value) <= {CHOICES, SHARED} or not isinstance(value[CHOICES], list | tuple):
            raise ConfigError(f"space: {name} is {dict(value)!r}; choices are a list, and alone")
        value = value[CHOICES]
    if isinstance(value, list | tuple):
        if not value:
            raise ConfigError(f"space: {name} is an empty list; give at least one choice")
        return Dimension(name, tuple(value))
    if not isinstance(value, Mapping):
        return value
    if not {"low", "high"} <= set(value) <= set(RANGE_KEYS):
        raise ConfigError(
            f"space: {name} is {dict(value)!r}; a range has the keys low and high, "
            "and step if it is not 1"
        )
    low, high, step = value["low"], value["high"], value.get("step")
    numbers = [number for number in (low, high, step) if number is not None]
    if any(not isinstance(number, int | float) or isinstance(number, bool) for number in numbers):
        raise ConfigError(f"space: the range of {name} holds {value!r}; allowed: numbers")
    if low > high or (step is not None and step <= 0):
        raise ConfigError(f"space: the range of {name} is empty: {dict(value)!r}")
    if step is None and all(isinstance(number, int) for number in (low, high)):
        step = 1
    return Dimension(name, None, low, high, step)


def dimensions_of(item: Any) -> list[Dimension]:
    """Return the dimensions in a value or a table."""
    if isinstance(item, Condition):
        return dimensions_of(item.then)
    if isinstance(item, Mapping):
        return [dimension for value in item.values() for dimension in dimensions_of(value)]
    return [item] if isinstance(item, Dimension) else []


def proposed(item: Any, trial: BaseTrial) -> Any:
    """Return a value or a table with the values that a trial proposes for its dimensions."""
    if isinstance(item, Mapping):
        return {key: proposed(value, trial) for key, value in item.items()}
    return item.propose(trial) if isinstance(item, Dimension) else item


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
