"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Groups of commands in the help.
HARDWARE, CHOICES = "From a model to hardware", "Formats, parallelism, cost"
MEASURE = "Look up and measure"

MODEL_HELP = "A registered name, file.py:factory (runs the file), or a .pt2, .onnx or .mase file."

Model = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
Config = Annotated[
    Path | None, typer.Option(help="TOML file with number formats, parallelism, memory and queues.")
]
Parallelism = Annotated[
    str | None,
    typer.Option(help="Elements per beat: a number, auto, or a TOML file with one per node."),
]
Multipliers = Annotated[
    int, typer.Option(min=1, help="With --parallelism auto: multipliers, at most.")
]
TargetInterval = Annotated[
    int | None, typer.Option(help="With --parallelism auto: cycles an inference, at most.")
]
TargetFps = Annotated[
    float | None,
    typer.Option(help="With --parallelism auto and --clock: inferences a second, at least."),
]
Clock = Annotated[
    float | None, typer.Option(help="With --target-fps: clock rate of the FPGA.", metavar="MHZ")
]
MaxLut = Annotated[
    int | None, typer.Option(help="With --parallelism auto: look-up tables, at most.")
]
MaxDsp = Annotated[int | None, typer.Option(help="With --parallelism auto: DSP blocks, at most.")]
MaxBram = Annotated[
    float | None, typer.Option(help="With --parallelism auto: block RAMs, at most.")
]
Memory = Annotated[
    str | None,
    typer.Option(help="Where weights lie: on-chip, or external behind one AXI4 read port."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Reuse = Annotated[
    bool,
    typer.Option("--reuse", help="Run equal layers one after the other on the hardware of one."),
]
Device = Annotated[
    str,
    typer.Option(
        help="Device whose DSP blocks modules instance: generic (none) or xcup (UltraScale+)."
    ),
]
MemoryStyle = Annotated[
    str | None,
    typer.Option(help="What holds constants: auto, logic, distributed or block memory."),
]
MinSqnr = Annotated[
    float | None,
    typer.Option(
        metavar="DB",
        help="Fail where an output agrees with the float model to less, in dB.",
    ),
]
Gated = Annotated[
    str,
    typer.Option(
        metavar="KIND",
        help="Whose dB: channel, the worst channel's about its mean, or tensor, the whole one's.",
    ),
]
Bus = Annotated[
    str | None,
    typer.Option(
        help="Bus ports: axi-stream, axi-memory (both with registers on AXI4-Lite) or uart."
    ),
]
BusWidth = Annotated[
    int | None,
    typer.Option(help="With --bus: bits of every stream (default: one word a beat)."),
]
OwnClock = Annotated[
    bool,
    typer.Option(
        "--own-clock", help="With --bus: a clock of its own for the design (port core_clk)."
    ),
]
PlainVerilog = Annotated[
    bool, typer.Option("--verilog", help="Also write plain Verilog-2005, with a testbench.")
]
Projects = Annotated[
    bool,
    typer.Option("--projects", help="Also write files of FuseSoC, Vivado, Quartus and LiteX."),
]
ReloadHeadroom = Annotated[
    int,
    typer.Option(min=0, metavar="BITS", help="Bits of range to spare in weights of --reload."),
]
Reload = Annotated[
    str | None,
    typer.Option(
        metavar="NODES",
        help="Layers whose weights can be loaded at run time: names with commas, or all.",
    ),
]
