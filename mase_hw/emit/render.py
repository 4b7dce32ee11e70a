"""Rendering of a design into text through Jinja2."""

from __future__ import annotations

from itertools import groupby

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mase_hw._resources import template_folder
from mase_hw.emit.design import Design, Parameter


def render_top(design: Design) -> str:
    """Return the text of `top.sv`."""
    environment = Environment(
        loader=FileSystemLoader(template_folder()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    template = environment.get_template("top.sv.j2")
    return template.render(
        design=design, parameter_groups=_groups(design), checks=_port_parameters(design)
    )


def _port_parameters(design: Design) -> list[tuple[str, list[Parameter]]]:
    """Return the parameters that describe each port of the top, by the port's name."""
    return [
        (stream.name, [item for item in design.parameters if item.name.startswith(prefix)])
        for stream in (*design.inputs, *design.outputs)
        for prefix in [f"{stream.name.upper()}_"]
    ]


def _groups(design: Design) -> list[list[Parameter]]:
    """Return the parameters of one tensor together: those that follow each other in one stem."""

    def stem(parameter: Parameter) -> str:
        for mark in ("_PRECISION_", "_SIGNED", "_TENSOR_SIZE_", "_PARALLELISM_", "_ROUNDING"):
            if mark in parameter.name:
                return parameter.name.split(mark)[0]
        return parameter.name.removesuffix("_OVERFLOW")

    return [list(group) for _, group in groupby(design.parameters, stem)]
