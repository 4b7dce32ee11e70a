"""Kinds of values that several floors share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A table of a TOML or JSON file, or of options: numbers, words, lists and tables by name.
Table = Mapping[str, Any]
# The same, on its way to be filled.
Record = dict[str, Any]
# A field of a number format, or an option: a number, a word, a bool, or a list of them.
Setting = Any
# An argument of a node, or what it is computed to: a node, a tensor, a number, or a list.
Argument = Any
