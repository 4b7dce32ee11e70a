"""No path of logic leads through a unit: a walk over the netlist of every module with streams."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mase_hw.emit.design import declared_names
from tests._quality import ROOT, rtl_files

# What only leads beats on, between units or inside one: the buffer of a memory port is before the
# gearbox, and what goes back from the exit of a loop enters a queue.
WIRES = {
    "mase_stream_fork", "mase_stream_join", "mase_copy_lanes", "mase_centre", "mase_stream_gearbox",
    "mase_loop_exit",
}  # fmt: skip
WORKER = Path(ROOT / "mase_hw" / "hardware" / "_yosys.py")


def modules() -> list[Path]:
    found = []
    for path in rtl_files():
        if path.stem.endswith("_pkg") or path.stem in WIRES:
            continue
        ports = declared_names(path.stem, path.read_text())["port"]
        takes = any(re.fullmatch(r"data_in\w*_ready", port) for port in ports)
        if takes and any(re.fullmatch(r"data_out\w*_ready", port) for port in ports):
            found.append(path)
    return found


def netlist(path: Path, library: Iterable[Path], folder: Path) -> Any:
    """Return the flat netlist of a module.

    Memory images have no words here: `$readmemh` of an empty name is left out.
    """
    file = folder / f"{path.stem}.json"
    sources = []
    for source in library:
        copy = folder / source.name
        copy.write_text(re.sub(r"initial \$readmemh\([^;]*;", "", source.read_text()))
        sources.append(str(copy))
    # Packages come first.
    sources.sort(key=lambda name: not name.endswith("_pkg.sv"))
    commands = [
        f"read_slang --top {path.stem} {' '.join(sources)}",
        "hierarchy -auto-top",
        "flatten",
        "proc",
        "opt_clean",
        f"write_json {file}",
    ]
    done = subprocess.run(
        [sys.executable, "-P", str(WORKER), *commands], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(file.read_text())["modules"][path.stem]


def followers(module: Any) -> dict[int, set[int]]:
    """Return, for each bit, those that logic leads it to; registers and memories end a path."""
    found: dict[int, set[int]] = defaultdict(set)
    for cell in module["cells"].values():
        kind, bits = cell["type"], cell["connections"]
        if re.search(r"dff|dlatch|\$sr", kind):
            continue
        outputs = [name for name, way in cell["port_directions"].items() if way == "output"]
        inputs = [name for name in bits if name not in outputs]
        if kind.startswith("$mem"):
            inputs = [name for name in inputs if name in ("RD_ADDR", "ADDR")]
        for name in inputs:
            for bit in bits[name]:
                for output in outputs:
                    found[bit].update(bits[output])
    return found


def reached(module: Any, start: str) -> set[str]:
    """Return the output ports that logic leads an input port to."""
    edges, ports = followers(module), module["ports"]
    open_, seen = list(ports[start]["bits"]), set[Any]()
    while open_:
        bit = open_.pop()
        if bit not in seen:
            seen.add(bit)
            open_ += edges[bit]
    return {
        name
        for name, port in ports.items()
        if port["direction"] == "output" and seen.intersection(port["bits"])
    }


def stream_of(port: str) -> str:
    return re.sub(r"_(valid|ready|exponent)$", "", port)


def through(module: Any) -> set[tuple[str, str]]:
    """Return the paths that a unit must not have.

    Operands that move together wait for each other, so that the `valid` of one leads to the
    `ready` of another: such a path ends at the register that offers the beat.
    """
    paths = set()
    for start, port in module["ports"].items():
        # A guard's `cancel` is the reset of what it guards.
        if port["direction"] != "input" or start.endswith(("clk", "rst", "cancel")):
            continue
        for end in reached(module, start):
            meets = (
                start.endswith("_valid")
                and end.endswith("_ready")
                and stream_of(start) != stream_of(end)
                and not stream_of(start).startswith("data_out")
            )
            stream = end.startswith("data_out") or end.endswith("_ready")
            if stream and not meets:
                paths.add((start, end))
    return paths


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.stem)
def test_no_path_leads_through_a_unit(path, tmp_path):
    assert through(netlist(path, rtl_files(), tmp_path)) == set()


def test_a_path_is_found(tmp_path):
    """A register whose `ready` waits for its consumer's, as one stage of it would do."""
    path = tmp_path / "mase_plain.sv"
    path.write_text(
        """module mase_plain (
    input logic clk, input logic rst,
    input logic [3:0] data_in, input logic data_in_valid, output logic data_in_ready,
    output logic [3:0] data_out, output logic data_out_valid, input logic data_out_ready);
  assign data_in_ready = !data_out_valid || data_out_ready;
  always_ff @(posedge clk) begin
    if (rst) data_out_valid <= 1'b0;
    else if (data_in_ready) data_out_valid <= data_in_valid;
    if (data_in_ready) data_out <= data_in;
  end
endmodule
"""
    )
    assert through(netlist(path, [path], tmp_path / "")) == {("data_out_ready", "data_in_ready")}
