"""Where the SystemVerilog library and the templates lie, in a checkout and in a wheel."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def rtl_folder() -> Path:
    """Return the folder that holds the SystemVerilog library."""
    return Path(str(files("mase_hw.rtl")))


def template_folder() -> Path:
    """Return the folder that holds the Jinja2 templates."""
    return Path(str(files("mase_hw.templates")))


def sim_folder() -> Path:
    """Return the folder that holds the simulation sources (Python and C++)."""
    return Path(str(files("mase_hw.sim")))
