"""Runs Yosys commands, one per argument, in the working folder.

`mase_hw.hardware.synth` starts this file as a process of its own: a fatal error of Yosys ends the
process that it happens in. Two commands are not of Yosys: `wrap KIND` puts a wrapper of
`mase_hw.hardware._wrapper` around the module `top`, and `macros BITS` marks memories of more bits.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any, cast

from mase_hw.hardware._wrapper import Port, Wrapper, wrapper


def main(commands: list[str]) -> None:
    """Run `commands` on an empty Yosys design."""
    from pyosys import libyosys

    design = libyosys.Design()
    for command in commands:
        if command.startswith("wrap "):
            _wrap(design, command.removeprefix("wrap "))
        elif command.startswith("macros "):
            _mark_macros(design, int(command.removeprefix("macros ")))
        else:
            design.run_pass(command)


def _wrap(design: Any, kind: str) -> None:
    from pyosys import libyosys

    top = design.module(libyosys.IdString("\\top"))
    wires = [top.wire(name) for name in top.ports]
    ports = [Port(wire.name.str()[1:], wire.width, wire.port_input) for wire in wires]
    with tempfile.NamedTemporaryFile("w", suffix=".v", prefix="mase_hw_") as file:
        file.write(wrapper(cast("Wrapper", kind), ports))
        file.flush()
        design.run_pass(f"read_verilog {file.name}")


def _mark_macros(design: Any, most_bits: int) -> None:
    """Give the attribute `macro` to every memory of more bits."""
    from pyosys.libyosys import IdString

    for module in design.all_selected_modules():
        for cell in module.cells_.values():
            if cell.type.str() == "$mem_v2":
                size, width = (
                    cell.getParam(IdString(name)).as_int() for name in ("\\SIZE", "\\WIDTH")
                )
                if size * width > most_bits:
                    cell.set_bool_attribute(IdString("\\macro"), True)


if __name__ == "__main__":
    main(sys.argv[1:])
