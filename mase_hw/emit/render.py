"""Rendering of a design into text through Jinja2."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from jinja2 import Environment

from mase_hw._resources import template_environment
from mase_hw.cells import Composite, Wire
from mase_hw.emit.connect import connect, inner_nets
from mase_hw.emit.design import Design, Instance, Net, Section, expressions
from mase_hw.emit.names import name_formats
from mase_hw.formats import StreamField

COLUMNS = 100


def render_top(design: Design) -> str:
    """Return the text of `top.sv`."""

    def instance(item: Instance) -> str:
        return instance_text(item, design.parameters(item))

    return environment().get_template("top.sv.j2").render(design=design, instance=instance)


def render_module(cell: Composite) -> str:
    """Return the text of the module of a netlist.

    Raises:
        EmissionError: for names that collide in it.
    """
    section = module_section(cell)
    formats = name_formats([section])

    def instance(item: Instance) -> str:
        given = {parameter: cell.files[item.name, parameter] for parameter in item.cell.images}
        return instance_text(item, {**expressions(item.cell, formats), **given})

    return (
        environment()
        .get_template("module.sv.j2")
        .render(cell=cell, section=section, formats=formats, instance=instance)
    )


def module_section(cell: Composite) -> Section:
    """Return the cells of a netlist with their nets; its streams are ports."""
    netlist = cell.netlist
    ports = {Wire("", name): Net(name, port.fields) for name, port in netlist.inputs.items()}
    results: dict[Wire, Net] = {}
    wires = []
    for name, wire in netlist.outputs.items():
        net = Net(name, netlist.port(wire).fields)
        if wire.cell and wire not in results:
            results[wire] = net
        else:
            wires.append((net, (ports | results)[wire]))
    inner = inner_nets(lambda stem: f"{stem}_out", netlist, results)
    nets = ports | inner
    instances = []
    for name, item in netlist.cells.items():
        streams = {
            port: nets[netlist.links[name, port]]
            for port in item.inputs
            if (name, port) in netlist.links
        }
        streams |= {port: nets[Wire(name, port)] for port in item.outputs}
        connected, unused = connect(item, name, streams)
        names = {port: net.name for port, net in streams.items()}
        instances.append(Instance(name, cell.module, item, {}, connected, names, unused))
    declared = tuple(net for wire, net in inner.items() if wire not in results)
    return Section((), declared, tuple(instances), tuple(wires))


@cache
def environment() -> Environment:
    """Return the environment of templates, with filters for SystemVerilog."""
    created = template_environment()
    created.filters |= {
        "comment": comment,
        "declarations": declarations,
        "assigns": assigns,
        "vector": vector,
        "suffix": str.__add__,
    }
    return created


def comment(lines: Sequence[str], indent: str = "  ") -> str:
    """Return comment lines of at most 100 columns; what continues a line is indented."""
    return "\n".join(
        textwrap.fill(
            line,
            COLUMNS,
            initial_indent=f"{indent}// ",
            subsequent_indent=f"{indent}//   ",
            break_on_hyphens=False,
        )
        for line in lines
    )


def vector(field: StreamField) -> str:
    """Return the type of a signal of a payload."""
    return f"logic [{field.lanes - 1}:0][{field.width_bits - 1}:0]"


def declarations(section: Section) -> str:
    """Return the declarations of the nets of a section."""
    lines = [line for net in section.nets for line in _declared(net)]
    unused = [name for item in section.instances for name in item.unused]
    if unused:
        lines += _packed(unused, "  logic ", ", ", ";")
    return "\n".join(lines)


def _declared(net: Net) -> Iterator[str]:
    for field in net.fields:
        yield f"  {vector(field)} {net.name}{field.suffix};"
    yield from _packed([f"{net.name}_valid", f"{net.name}_ready"], "  logic ", ", ", ";")


def instance_text(instance: Instance, parameters: Mapping[str, str]) -> str:
    """Return an instance, as many parameters a line as fit and a line for each stream."""
    given = [f".{name}({value})" for name, value in parameters.items()]
    clocked = (("clk", "clk"), ("rst", "rst"))
    groups = [clocked, *instance.ports]
    lines = []
    for number, group in enumerate(groups):
        ports = [f".{port}" if port == net else f".{port}({net})" for port, net in group]
        last = number == len(groups) - 1
        lines += _packed(ports, "      ", ", ", "" if last else ",")
    if not given:
        opening = [f"  {instance.module} {instance.name} ("]
    else:
        short = f"  {instance.module} #({', '.join(given)}) {instance.name} ("
        opening = (
            [short]
            if len(short) <= COLUMNS
            else [
                f"  {instance.module} #(",
                *_packed(given, "      ", ", ", ""),
                f"  ) {instance.name} (",
            ]
        )
    return "\n".join([*opening, *lines, "  );"])


def _packed(words: Sequence[str], indent: str, separator: str, end: str) -> list[str]:
    """Return words in lines of at most 100 columns; `end` closes the last one.

    Lines after the first begin with as much space as the indent.
    """
    lines, line = [], indent
    for number, word in enumerate(words):
        text = word + (end if number == len(words) - 1 else separator)
        if len((line + text).rstrip()) > COLUMNS and line.strip() != indent.strip():
            lines.append(line.rstrip())
            line = " " * len(indent)
        line += text
    return [*lines, line.rstrip()]


def assigns(section: Section) -> str:
    """Return the connections of streams that are one and the same, or copies."""
    lines = []
    for driven, driver in section.copies:
        lines += [
            f"  assign {driven.name}{field.suffix} = {driver.name}{field.suffix};"
            for field in driven.fields
        ]
    for driven, driver in section.wires:
        lines += [
            f"  assign {driven.name}{field.suffix} = {driver.name}{field.suffix};"
            for field in driven.fields
        ]
        lines.append(f"  assign {driven.name}_valid = {driver.name}_valid;")
        lines.append(f"  assign {driver.name}_ready = {driven.name}_ready;")
    return "\n".join(lines)
