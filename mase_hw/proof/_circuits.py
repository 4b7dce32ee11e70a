"""Writes a design with assertions as a circuit, with Yosys, in the working folder.

`mase_hw.proof` starts this file as a process of its own: a fatal error of Yosys ends the process
that it happens in. Arguments are the top module and the sources, packages first. `step.aig` is
one cycle of the circuit, `names.json` names its assertions, `step.map` its inputs and registers.
`roles.json` has the attribute `mase_register` of registers that have one, by name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROLE = "\\mase_register"
# Registers that have no initial value start with any. What drives nothing is any value.
COMMANDS = (
    "proc",
    "flatten",
    "opt_clean",
    "memory -nomap",
    "memory_map -rom-only",
    "memory_map -formal",
    "opt_clean",
    "chformal -lower",
    "async2sync",
    "formalff -clk2ff -ff2anyinit",
    "opt -fast",
    "setundef -undriven -anyseq",
    "opt -fast",
    "techmap",
    "simplemap",
    "dffunmap",
    "aigmap",
    "setundef -undriven -anyseq",
    "opt_clean",
)


def main(top: str, sources: list[str]) -> None:
    """Read `sources`, write the circuit of module `top`."""
    from pyosys import libyosys

    design = libyosys.Design()
    design.run_pass(
        f"read_slang --no-synthesis-define -D MASE_CHECKS --top {top} {' '.join(sources)}"
    )
    for command in (f"hierarchy -top {top}", *COMMANDS):
        design.run_pass(command)
    # Its names need registers that start with 0; else both are the same.
    design.run_pass("write_aiger -zinit -ywmap names.json names.aig")
    design.run_pass("write_aiger -map step.map step.aig")
    role = libyosys.IdString(ROLE)
    roles = {
        wire.name.str().removeprefix("\\"): wire.get_string_attribute(role)
        for wire in design.top_module().selected_wires()
        if wire.has_attribute(role)
    }
    Path("roles.json").write_text(json.dumps(roles))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
