"""Estimated resources and energy of a graph with parallelism, in microseconds, for searches.

The rules are those of Yosys' `synth_xilinx -family xcup`, which `mase_hw.hardware.synth` runs:

- A product of two operands takes DSP blocks of 27 x 18 bits where it has 9 bits or more, else
  look-up tables, about one per bit of the one operand times a bit of the other.
- A memory takes block RAM where its count of 18-kbit blocks times 129 is less than its bits over 64
  (the costs of the memory mapper), else look-up tables.
- The other coefficients are what `synthesize` counted, divided by lanes, bits and multipliers, on
  multilayer perceptrons of 4 to 8 bits at parallelism 1 to 4: logic of a node with multipliers is
  `LUT_PER_UNIT` and `LUT_PER_PRODUCT_BIT` for each bit of a product, that of another node
  `LUT_PER_STREAM_BIT` for each bit of its beats.

Energy is a proxy: the arithmetic and the reads of constants of one inference, at the costs that
M. Horowitz gives for 45 nm and 0.9 V ("Computing's energy problem", ISSCC 2014): 3.1 pJ for a
32 x 32-bit product, scaled with the product of the widths; 0.1 pJ for a 32-bit sum, scaled with the
width; 10 pJ for 64 bits read from a memory of 8 KiB.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mase_hw.cells import Netlist, RomSource
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.ops import Call, TensorSpec

DSP_BITS = (27, 18)
DSP_LEAST_PRODUCT_BITS = 9
BLOCK_SHAPES = ((1, 16384), (2, 8192), (4, 4096), (9, 2048), (18, 1024), (36, 512))
BLOCK_COST, LOGIC_COST_PER_BIT = 129, 1 / 64
LUT_PER_ROM_BIT = 0.058
LUT_PER_UNIT, LUT_PER_PRODUCT_BIT = 120, 0.78
LUT_PER_STREAM_BIT = 0.4
QUEUE_DEPTH_PER_LUT = 32
PRODUCT_PICOJOULES, SUM_PICOJOULES, READ_PICOJOULES = 3.1, 0.1, 10.0
PRODUCT_BITS, SUM_BITS, READ_BITS = 32 * 32, 32, 64


@dataclass(frozen=True)
class Estimate:
    """What a design, or a part of it, is estimated to take.

    Attributes:
        lut: look-up tables.
        dsp: DSP blocks.
        bram: block RAMs of 36 kbit; halves count.
        energy_pj: proxy of the energy of one inference, picojoules.
    """

    lut: float = 0.0
    dsp: float = 0.0
    bram: float = 0.0
    energy_pj: float = 0.0

    def __add__(self, other: Estimate) -> Estimate:
        """Return the sum."""
        return Estimate(
            self.lut + other.lut,
            self.dsp + other.dsp,
            self.bram + other.bram,
            self.energy_pj + other.energy_pj,
        )


def estimate(mg: MaseGraph) -> Estimate:
    """Return the estimate of a graph that went through the hardware metadata pass."""
    total = Estimate()
    for node in mg.nodes:
        if node.op == "call_function":
            total += _node(mg.call(node), mg.netlist(node))
    return total


def _node(call: Call, netlist: Netlist) -> Estimate:
    if netlist.is_wire:
        return Estimate()
    if isinstance(netlist.main, StreamFifo):
        queue = netlist.main
        return Estimate(queue.port.width_bits * -(-queue.depth // QUEUE_DEPTH_PER_LUT))
    total = Estimate()
    for depth, width in _memories(netlist):
        total += memory(depth, width)
    multipliers = netlist.multipliers
    if not multipliers:
        specs = [*call.streams.values(), *call.results.values()]
        return total + Estimate(LUT_PER_STREAM_BIT * sum(map(_beat_bits, specs)))
    first, second = _operand_bits(call)
    product = first + second
    blocks = min(
        math.ceil(wide / DSP_BITS[0]) * math.ceil(narrow / DSP_BITS[1])
        for wide, narrow in ((first, second), (second, first))
    )
    in_dsp = product >= DSP_LEAST_PRODUCT_BITS
    logic = LUT_PER_PRODUCT_BIT * product + (0.0 if in_dsp else first * second)
    work = multipliers * netlist.busy_cycles
    energy = (
        PRODUCT_PICOJOULES * first * second / PRODUCT_BITS
        + SUM_PICOJOULES * product / SUM_BITS
        + READ_PICOJOULES * second / READ_BITS * bool(call.constants)
    )
    return total + Estimate(
        LUT_PER_UNIT + multipliers * logic,
        multipliers * blocks * in_dsp,
        0.0,
        work * energy,
    )


def memory(depth: int, width_bits: int) -> Estimate:
    """Return what a read-only memory takes."""
    bits = depth * width_bits
    halves = min(
        math.ceil(width_bits / width) * math.ceil(depth / words) for width, words in BLOCK_SHAPES
    )
    if halves * BLOCK_COST < bits * LOGIC_COST_PER_BIT:
        return Estimate(bram=halves / 2)
    return Estimate(lut=LUT_PER_ROM_BIT * bits)


def _memories(netlist: Netlist) -> Iterator[tuple[int, int]]:
    """Yield words and bits of a word of every memory of a node."""
    for cell in netlist.cells.values():
        if isinstance(cell, RomSource):
            yield cell.depth, cell.image.width_bits
        else:
            for _, image in cell.images.values():
                yield len(image.words), image.width_bits


def _beat_bits(spec: TensorSpec) -> int:
    fields = spec.quantized.stream_fields(spec.lanes, spec.parallelism[0])
    return sum(item.lanes * item.width_bits for item in fields)


def _operand_bits(call: Call) -> tuple[float, float]:
    """Return the bits of an element of the first two operands, or the first one's twice."""
    bits = [spec.quantized.bits_per_element for spec in call.operands.values()]
    return bits[0], bits[1] if len(bits) > 1 else bits[0]
