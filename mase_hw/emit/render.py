"""Rendering of a design into text through Jinja2."""

from __future__ import annotations

import re
from itertools import groupby

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mase_hw._resources import template_folder
from mase_hw.emit.design import Design, Parameter

# What the parameter of a node is called behind the node's name.
_OWN_NAME = re.compile(r"_?(?<![A-Z])[A-Z][A-Z0-9_]*$")


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
    """Return the parameters of one tensor together, and the rest of a node."""
    first = "_PRECISION_0"
    tensors = {
        item.name.removesuffix(first) for item in design.parameters if item.name.endswith(first)
    }

    def stem(parameter: Parameter) -> str:
        words = parameter.name.split("_")
        prefixes = ("_".join(words[:count]) for count in range(len(words) - 1, 0, -1))
        own = next((prefix for prefix in prefixes if prefix in tensors), None)
        return own or _OWN_NAME.sub("", parameter.name)

    return [list(group) for _, group in groupby(design.parameters, stem)]
