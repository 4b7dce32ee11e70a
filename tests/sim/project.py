"""A hand-made project of two layers that scale by constants, whole or with faults built in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mase_hw._resources import rtl_folder
from mase_hw.emit.design import Design, Instance, Memory, NodeSummary, Stream
from mase_hw.formats.fixed import Fixed
from mase_hw.ops import TensorSpec

FORMAT = Fixed(8, 4)
LIBRARY = ("mase_stream_register", "mase_stream_join", "mase_rom_source", "mase_fixed_cast")
LANES = 4
ELEMENTS = 6
BEATS = 2


@dataclass(frozen=True)
class Layer:
    """A layer: its name, weights (codes), rounding, and what happens to its stream."""

    name: str
    weights: Tensor
    rounding: int = 0
    fault: str = "none"


def layers(
    first: str = "none", second: str = "none", rounding: Sequence[int] = (0, 0)
) -> tuple[Layer, Layer]:
    weights = torch.tensor([[19, -23, 37, 14, -45, 9], [21, 33, -12, 57, 25, -31]])
    return (
        Layer("scale1", weights[0], rounding[0], first),
        Layer("scale2", weights[1], rounding[1], second),
    )


def spec(dim_0: int = LANES) -> TensorSpec:
    return TensorSpec((1, ELEMENTS), "float32", FORMAT, (1, dim_0))


def reference(inputs: list[Tensor], nodes: Sequence[str]) -> Mapping[str, Tensor]:
    codes, found = inputs[0], {}
    for layer in layers():
        codes = FORMAT.from_fixed(codes * layer.weights, 8)
        found[layer.name] = codes
    return {name: item for name, item in found.items() if name in nodes}


def write_project(folder: Path, chain: Sequence[Layer] | None = None) -> Path:
    """Write the project; its layers stand in a row between data_in_0 and data_out_0."""
    chain = layers() if chain is None else chain
    streams = tuple(Stream(f"{item.name}_data_out_0", item.name, spec()) for item in chain)
    memories = tuple(_memory(item) for item in chain)
    design = Design(
        name="scales",
        inputs=(Stream("data_in_0", "x", spec()),),
        outputs=(Stream("data_out_0", chain[-1].name, spec()),),
        streams=streams,
        parameters=(),
        instances=tuple(
            Instance(f"{item.name}_inst", item.name, "scale", {}, {}) for item in chain
        ),
        memories=memories,
        nodes=tuple(
            NodeSummary(item.name, "mul", "scale", BEATS, LANES, "fixture:1: x * w")
            for item in chain
        ),
        interval_cycles=BEATS,
        latency_cycles=BEATS - 1 + len(chain),
    )
    (folder / "rtl").mkdir(parents=True)
    (folder / "mem").mkdir()
    names = _copy_sources(folder, {f"fault_{item.fault}" for item in chain})
    (folder / "top.sv").write_text(_top(chain))
    (folder / "files.f").write_text("\n".join([*names, "top.sv"]) + "\n")
    (folder / "design.json").write_text(design.to_json())
    for memory in memories:
        (folder / memory.file).write_text(memory.render())
    return folder


def _copy_sources(folder: Path, faults: set[str]) -> list[str]:
    sources = [next(rtl_folder().rglob(f"{name}.sv")) for name in LIBRARY]
    here = Path(__file__).parent / "rtl"
    sources += [here / f"{name}.sv" for name in ("scale", *sorted(faults))]
    for source in sources:
        (folder / "rtl" / source.name).write_text(source.read_text())
    return [f"rtl/{source.name}" for source in sources]


def _memory(layer: Layer) -> Memory:
    beats = spec().to_beats(layer.weights) & 0xFF
    words = tuple(
        sum(int(lane) << (8 * index) for index, lane in enumerate(beat)) for beat in beats
    )
    return Memory(f"{layer.name}_weight", layer.name, 8 * LANES, words)


def _top(chain: Sequence[Layer]) -> str:
    body, source = [], "data_in_0"
    for layer in chain:
        raw, out = f"{layer.name}_raw", f"{layer.name}_data_out_0"
        for net in (raw, out):
            body.append(f"  logic [{LANES - 1}:0][7:0] {net};\n  logic {net}_valid, {net}_ready;")
        body.append(
            f"  scale #(.LANES({LANES}), .BEATS({BEATS}), .ROUNDING({layer.rounding}),\n"
            f'      .INIT_FILE({{MEM_DIR, "/{layer.name}_weight.mem"}}))\n'
            f"      {layer.name}_inst ({_ports(source, raw)});"
        )
        body.append(
            f"  fault_{layer.fault} #(.WIDTH({8 * LANES})) {layer.name}_fault ({_ports(raw, out)});"
        )
        source = out
    return f"""// SPDX-License-Identifier: Apache-2.0
module top #(
    parameter string MEM_DIR = "mem"
) (
    input  logic clk,
    input  logic rst,
    input  logic [{LANES - 1}:0][7:0] data_in_0,
    input  logic data_in_0_valid,
    output logic data_in_0_ready,
    output logic [{LANES - 1}:0][7:0] data_out_0,
    output logic data_out_0_valid,
    input  logic data_out_0_ready
);
{chr(10).join(body)}
  assign data_out_0 = {source};
  assign data_out_0_valid = {source}_valid;
  assign {source}_ready = data_out_0_ready;
endmodule
"""


def _ports(source: str, target: str) -> str:
    pins = [f".clk(clk), .rst(rst), .data_in({source}), .data_in_valid({source}_valid)"]
    pins += [f".data_in_ready({source}_ready), .data_out({target})"]
    pins += [f".data_out_valid({target}_valid), .data_out_ready({target}_ready)"]
    return ", ".join(pins)
