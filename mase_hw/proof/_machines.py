"""Writes a design, and modules in it, as circuits with outputs, with Yosys, in the working folder.

`mase_hw.proof` starts this file as a process of its own: a fatal error of Yosys ends the process
that it happens in. Arguments are the folder of the results, the top module, a module inside or
nothing, `own` or `around`, and the sources, packages first. A circuit is made of each instance of
the module inside, or of all instances around those and of the top: `N.aig` is one cycle of it,
`N.map` says what its literals are, and `names.json` which instance it is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# What is undefined is zero: in both circuits that are compared.
COMMANDS = (
    "proc",
    "flatten",
    "opt_clean",
    "memory -nomap",
    "memory_map -formal",
    "opt_clean",
    "async2sync",
    "formalff -clk2ff -ff2anyinit",
    "setundef -undriven -zero",
    "opt -fast",
    "techmap",
    "simplemap",
    "dffunmap",
    "aigmap",
    "setundef -undriven -zero",
    "opt_clean",
)


def main(folder: str, top: str, inside: str, level: str, sources: list[str]) -> None:
    """Read `sources`, write the circuits."""
    from pyosys import libyosys

    design = libyosys.Design()
    design.run_pass(f"read_slang --keep-hierarchy --top {top} {' '.join(sources)}")
    modules = [module.name.str().removeprefix("\\") for module in design.selected_modules()]
    # An instance is called `module$place`, the place with dots.
    places = {name.partition("$")[2]: name for name in modules if "$" in name}
    wanted = [place for place, name in places.items() if inside and name.startswith(f"{inside}$")]
    around = [place for place in places if any(item.startswith(f"{place}.") for item in wanted)]
    names = wanted if level == "own" else [*around, ""]
    for number, place in enumerate(names):
        design.run_pass("design -push-copy")
        design.run_pass(f"hierarchy -top {places[place] if place else top}")
        for command in COMMANDS:
            design.run_pass(command)
        design.run_pass(f"write_aiger -map {folder}/{number}.map {folder}/{number}.aig")
        design.run_pass("design -pop")
    listed = {"names": names, "wanted": wanted}
    Path(folder, "names.json").write_text(json.dumps(listed))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
