"""Runs Yosys commands, one per argument, in the working folder.

`mase_hw.hardware.synth` starts this file as a process of its own: a fatal error of Yosys ends the
process that it happens in.
"""

from __future__ import annotations

import sys


def main(commands: list[str]) -> None:
    """Run `commands` on an empty Yosys design."""
    from pyosys import libyosys

    design = libyosys.Design()
    for command in commands:
        design.run_pass(command)


if __name__ == "__main__":
    main(sys.argv[1:])
