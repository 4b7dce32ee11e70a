"""A hand-made project: chains of layers that scale by constants, whole or with faults.

The faults are chosen by memory images, so that projects of the same shape share one build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mase_hw._resources import rtl_folder
from mase_hw.emit.design import Design, Memory, NodeSummary, Stream
from mase_hw.formats.fixed import Fixed
from mase_hw.ops import TensorSpec

FORMAT = Fixed(8, 4)
LIBRARY = (
    "mase_pkg", "mase_stream_join", "mase_rom_source", "mase_fixed_round", "mase_fixed_bound",
)  # fmt: skip
ELEMENTS = 6
FAULTS = (
    "none", "drop_beat", "duplicate_beat", "unstable_data", "drop_valid", "hang", "swap_lanes",
    "wait_for_ready", "one_too_high",
)  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A layer: its name, weights (codes), lanes, and what is wrong with it."""

    name: str
    weights: tuple[int, ...]
    lanes: int = 4
    fault: str = "none"
    floors: bool = False

    @property
    def stream(self) -> Stream:
        spec = TensorSpec((1, ELEMENTS), "float32", FORMAT, (1, self.lanes))
        return Stream(f"{self.name}_data_out_0", self.name, spec)

    @property
    def memories(self) -> tuple[Memory, ...]:
        beats = self.stream.spec.to_beats(torch.tensor(self.weights)) & 0xFF
        words = tuple(
            sum(int(lane) << (8 * index) for index, lane in enumerate(beat)) for beat in beats
        )
        return (
            Memory(f"{self.name}_weight", self.name, 8 * self.lanes, words),
            Memory(f"{self.name}_fault", self.name, 4, (FAULTS.index(self.fault),)),
            Memory(f"{self.name}_rounding", self.name, 4, (int(self.floors),)),
        )


SCALE1 = Layer("scale1", (19, -23, 37, 14, -45, 9))
SCALE2 = Layer("scale2", (21, 33, -12, 57, 25, -31))
SCALE3 = Layer("scale3", (16, -16, 5, -77, 100, 3), lanes=1)
CHAIN = ((SCALE1, SCALE2),)
TWO_CHAINS = ((SCALE1,), (SCALE3,))


def make_reference(
    chains: Sequence[Sequence[Layer]] = CHAIN,
) -> Callable[[list[Tensor], Sequence[str]], Mapping[str, Tensor]]:
    def reference(inputs: list[Tensor], nodes: Sequence[str]) -> Mapping[str, Tensor]:
        found = {}
        for codes, chain in zip(inputs, chains, strict=True):
            for layer in chain:
                codes = FORMAT.from_fixed(codes * torch.tensor(layer.weights), 8)
                found[layer.name] = codes
        return {name: item for name, item in found.items() if name in nodes}

    return reference


def write_project(folder: Path, chains: Sequence[Sequence[Layer]] = CHAIN) -> Path:
    """Write a project: chain N stands between data_in_N and data_out_N."""
    every = [layer for chain in chains for layer in chain]
    inputs = [_port("data_in", index, f"x{index}", chain[0]) for index, chain in enumerate(chains)]
    outputs = [
        _port("data_out", index, chain[-1].name, chain[-1]) for index, chain in enumerate(chains)
    ]
    design = Design(
        name="scales",
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        streams=tuple(layer.stream for layer in every),
        sections=(),
        memories=tuple(memory for layer in every for memory in layer.memories),
        nodes=tuple(
            NodeSummary(
                layer.name, "mul", "scale", layer.stream.spec.beats, layer.lanes, "net.py:3: y = x"
            )
            for layer in every
        ),
        interval_cycles=max(layer.stream.spec.beats for layer in every),
        latency_cycles=max(chain[0].stream.spec.beats - 1 + len(chain) for chain in chains),
    )
    for name in ("rtl", "mem"):
        (folder / name).mkdir(parents=True)
    sources = [next(rtl_folder().rglob(f"{name}.sv")) for name in LIBRARY]
    sources += sorted((Path(__file__).parent / "rtl").glob("*.sv"))
    for source in sources:
        (folder / "rtl" / source.name).write_text(source.read_text())
    (folder / "top.sv").write_text(_top(chains))
    names = [*(f"rtl/{source.name}" for source in sources), "top.sv"]
    (folder / "files.f").write_text("\n".join(names) + "\n")
    (folder / "design.json").write_text(design.to_json())
    for memory in design.memories:
        (folder / memory.file).write_text(memory.render())
    return folder


def _port(kind: str, index: int, node: str, layer: Layer) -> Stream:
    return Stream(f"{kind}_{index}", node, layer.stream.spec)


def _top(chains: Sequence[Sequence[Layer]]) -> str:
    ports, body = ["input logic clk", "input logic rst"], []
    for index, chain in enumerate(chains):
        for kind, into in (("data_in", True), ("data_out", False)):
            name, lanes = f"{kind}_{index}", chain[0].lanes
            forward, back = ("input", "output") if into else ("output", "input")
            ports.append(f"{forward} logic [{lanes - 1}:0][7:0] {name}")
            ports.append(f"{forward} logic {name}_valid")
            ports.append(f"{back} logic {name}_ready")
        source = f"data_in_{index}"
        for layer in chain:
            body.append(_instances(layer, source))
            source = f"{layer.name}_data_out_0"
        target = f"data_out_{index}"
        body.append(f"  assign {target} = {source};")
        body.append(f"  assign {target}_valid = {source}_valid;")
        body.append(f"  assign {source}_ready = {target}_ready;")
    header = ",\n    ".join(ports)
    return (
        "// SPDX-License-Identifier: Apache-2.0\nmodule top #(\n"
        f'    parameter string MEM_DIR = "mem"\n) (\n    {header}\n);\n'
        + "\n".join(body)
        + "\nendmodule\n"
    )


def _instances(layer: Layer, source: str) -> str:
    raw, out = f"{layer.name}_raw", f"{layer.name}_data_out_0"
    nets = "\n".join(
        f"  logic [{layer.lanes - 1}:0][7:0] {net};\n  logic {net}_valid, {net}_ready;"
        for net in (raw, out)
    )
    image = f'{{MEM_DIR, "/{layer.name}_'
    return f"""{nets}
  scale #(.LANES({layer.lanes}), .BEATS({layer.stream.spec.beats}),
      .INIT_FILE({image}weight.mem"}}),
      .ROUNDING_FILE({image}rounding.mem"}})) {layer.name}_inst ({_pins(source, raw)});
  fault #(.LANES({layer.lanes}), .INIT_FILE({image}fault.mem"}}))
      {layer.name}_fault ({_pins(raw, out)});"""


def _pins(source: str, target: str) -> str:
    pins = [f".clk(clk), .rst(rst), .data_in({source}), .data_in_valid({source}_valid)"]
    pins += [f".data_in_ready({source}_ready), .data_out({target})"]
    pins += [f".data_out_valid({target}_valid), .data_out_ready({target}_ready)"]
    return ", ".join(pins)
