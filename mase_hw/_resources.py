"""Where the SystemVerilog library and the templates lie, in a checkout and in a wheel."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def rtl_folder() -> Path:
    """Return the folder that holds the SystemVerilog library."""
    return Path(str(files("mase_hw.rtl")))


def template_folder() -> Path:
    """Return the folder that holds the Jinja2 templates."""
    return Path(str(files("mase_hw.templates")))


def template_environment() -> Environment:
    """Return an environment of all Jinja2 templates; a name that is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(template_folder()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def sim_folder() -> Path:
    """Return the folder that holds the simulation sources (Python and C++)."""
    return Path(str(files("mase_hw.sim")))
