"""The library modules that a design needs, and the text of each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from mase_hw._resources import rtl_folder
from mase_hw.errors import EmissionError


@cache
def _sources() -> dict[str, Path]:
    return {path.stem: path for path in sorted(rtl_folder().rglob("*.sv"))}


def module_files(modules: Iterable[str]) -> list[Path]:
    """Return the files of `modules` and of all they instance, in alphabetical order.

    Raises:
        EmissionError: when the library has no such module.
    """
    known, open_, found = _sources(), list(modules), dict[str, Path]()
    while open_:
        module = open_.pop()
        if module in found:
            continue
        if module not in known:
            raise EmissionError(f"the SystemVerilog library has no module {module}")
        found[module] = known[module]
        words = set(re.findall(r"\bmase_\w+", known[module].read_text()))
        open_ += [word for word in words if word in known]
    return [found[module] for module in sorted(found)]
