"""Configuration files that `emit-verilog --config` takes."""

from __future__ import annotations

import json
import logging
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from mase_hw._kinds import Record
from mase_hw._results import result_file
from mase_hw.errors import ConfigError

_LOG = logging.getLogger(__name__)
# The word for all nodes where a configuration asks for names.
ALL = "all"
FORMATS = "quantize"
# The file beside it without whose weights number formats keep less than was measured.
WEIGHTS_KEY = "weights"


def read_toml(path: Path) -> Record:
    """Return a TOML file's tables; a byte-order mark before them says nothing.

    Raises:
        ConfigError: when there is no such file, or it is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def read_formats(path: str | Path) -> dict[str, object]:
    """Return the number formats of a configuration file: its table `quantize`, or all of it.

    Raises:
        ConfigError: when there is no such file, or it holds no number formats.
    """
    tables = read_toml(Path(path))
    found = tables.get(FORMATS, tables)
    if WEIGHTS_KEY in tables:
        _LOG.warning("%s", needs_weights(Path(path), tables[WEIGHTS_KEY]))
    if not isinstance(found, dict) or not {"by", "default"} & found.keys():
        raise ConfigError(f"{path} holds no number formats: it has no table {FORMATS!r}")
    return found


def needs_weights(path: Path, weights: str) -> str:
    """Return, for messages, which weights number formats need."""
    return f"{path} was found for the weights of {path.parent / weights}: with others it keeps less"


def write_config(path: Path, tables: Mapping[str, object], comments: Sequence[str] = ()) -> Path:
    """Write nested tables of scalars and lists as TOML; the same tables give the same bytes.

    Raises:
        ConfigError: for a value that TOML does not have.
        OutputError: when a file of others has that name.
    """
    text = config_text(tables, comments)
    with result_file(path) as file:
        file.write_text(text, encoding="utf-8")
    return path


def write_formats(
    path: Path,
    formats: Mapping[str, object],
    parallelism: object = None,
    weights: str | None = None,
    comments: Sequence[str] = (),
) -> Path:
    """Write number formats, a table of parallelism and the file of their weights, where they are.

    Raises:
        OutputError: when a file of others has that name.
    """
    tables: Record = {} if weights is None else {WEIGHTS_KEY: weights}
    tables[FORMATS] = formats
    if isinstance(parallelism, Mapping) and parallelism:
        tables["parallelism"] = parallelism
    return write_config(path, tables, comments)


def config_text(tables: Mapping[str, object], comments: Sequence[str] = ()) -> str:
    """Return nested tables as TOML below lines of comment."""
    lines = [*(f"# {line}" for line in comments), *_lines(tables, ())]
    return "\n".join(lines).lstrip() + "\n"


def _lines(table: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    scalars = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in scalars.items()]
    # A table needs its header where it has values of its own, or nothing at all.
    if path and (scalars or not table):
        lines[:0] = ["", f"[{'.'.join(map(_key, path))}]"]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _lines(value, (*path, key))
    return lines


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    raise ConfigError(f"a configuration file cannot hold {value!r}")
