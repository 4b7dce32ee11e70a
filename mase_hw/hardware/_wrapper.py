"""Modules around the top that make paths to its ports count, or that need few pins.

Paths between a port and a flip-flop have no clock period to meet, so a top that is placed alone
would be judged without them. Two wrappers in plain Verilog mend that:

- `registered`: a flip-flop at every bit of every port. Its own ports are as many, so it is for a
  placement without pins.
- `serial`: the same flip-flops; those of the inputs are one shift register behind a pin, and those
  of the outputs are folded into another before a pin. It fits any device, and serves to measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Wrapper = Literal["registered", "serial"]

WRAPPER = "mase_wrapper"
INSTANCE = "u_top"
CLOCK = "clk"


@dataclass(frozen=True)
class Port:
    """One port of the top: a vector."""

    name: str
    width_bits: int
    is_input: bool


def wrapper(kind: Wrapper, ports: Sequence[Port]) -> str:
    """Return the Verilog of a wrapper around a top with these ports, one of which is the clock."""
    data = [port for port in ports if port.name != CLOCK]
    return {"registered": _registered, "serial": _serial}[kind](data)


def _registered(ports: Sequence[Port]) -> str:
    names = ", ".join([CLOCK, *(port.name for port in ports)])
    lines = [f"module {WRAPPER} ({names});", f"input {CLOCK};"]
    for port in ports:
        name, bits = port.name, f"[{port.width_bits - 1}:0]"
        if port.is_input:
            lines += [f"input {bits} {name};", f"reg {bits} {name}_q;"]
            lines += [f"always @(posedge {CLOCK}) {name}_q <= {name};"]
        else:
            lines += [f"output reg {bits} {name};", f"wire {bits} {name}_d;"]
            lines += [f"always @(posedge {CLOCK}) {name} <= {name}_d;"]
    return _closed(lines, ports, "{name}_q", "{name}_d")


def _serial(ports: Sequence[Port]) -> str:
    inputs = sum(port.width_bits for port in ports if port.is_input)
    outputs = sum(port.width_bits for port in ports if not port.is_input)
    lines = [
        f"module {WRAPPER} ({CLOCK}, serial_in, serial_out);",
        f"input {CLOCK}, serial_in;",
        "output serial_out;",
        f"reg [{inputs - 1}:0] in_q;",
        f"always @(posedge {CLOCK}) in_q <= {{in_q, serial_in}};",
        f"wire [{outputs - 1}:0] out_d;",
        f"reg [{outputs - 1}:0] out_q, folded_q;",
        f"always @(posedge {CLOCK}) out_q <= out_d;",
        f"always @(posedge {CLOCK}) folded_q <= {{folded_q, 1'b0}} ^ out_q;",
        f"assign serial_out = folded_q[{outputs - 1}];",
    ]
    low = {True: 0, False: 0}
    for port in ports:
        vector = "in_q" if port.is_input else "out_d"
        start = low[port.is_input]
        low[port.is_input] += port.width_bits
        part = f"{vector}[{low[port.is_input] - 1}:{start}]"
        lines.append(f"wire [{port.width_bits - 1}:0] {port.name}_w;")
        driven, driver = (f"{port.name}_w", part) if port.is_input else (part, f"{port.name}_w")
        lines.append(f"assign {driven} = {driver};")
    return _closed(lines, ports, "{name}_w", "{name}_w")


def _closed(lines: list[str], ports: Sequence[Port], entering: str, leaving: str) -> str:
    """Return the lines with the top and the end of the module."""
    nets = [
        f".{port.name}({(entering if port.is_input else leaving).format(name=port.name)})"
        for port in ports
    ]
    body = [*lines, f"top {INSTANCE} ({', '.join([f'.{CLOCK}({CLOCK})', *nets])});", "endmodule"]
    return "\n".join(body) + "\n"
