"""Estimates beside Yosys' counts, of designs that no coefficient was fitted on.

They are the first example of operators, one number format each in turn; cells of a design that
Yosys counts are those that the design has, each kept by itself as `mase-hw synth` keeps them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mase_hw.cells import Cell

PARALLELISM = 3
BATCH = 2
# Formats that operators get in turn; those that an operator lacks are passed over.
FORMATS: Sequence[Mapping[str, object]] = (
    {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8},
    {"name": "mxint", "data_in_block_size": 6, "weight_block_size": 6, "bias_block_size": 6},
    {"name": "fp8_e4m3"},
    {"name": "fixed", "data_in_width": 11, "weight_width": 9, "data_out_width": 7},
    {"name": "mxfp8", "data_in_block_size": 6, "weight_block_size": 6, "bias_block_size": 6},
    {"name": "scaled_integer", "data_in_width": 8, "weight_width": 8},
    {"name": "fp8_e5m2"},
    {"name": "mxint", "data_in_width": 6, "data_in_block_size": 6, "weight_block_size": 6},
)


@dataclass(frozen=True)
class Comparison:
    """A design, what was counted of it, and what was estimated.

    Attributes:
        name: the design.
        counted: LUT, FF, DSP and BRAM of Yosys.
        guessed: the same of the estimator.
    """

    name: str
    counted: tuple[float, float, float, float]
    guessed: tuple[float, float, float, float]

    def error(self, place: int) -> float:
        """Return the relative error of a resource, 0 for LUT and 1 for FF."""
        return (self.guessed[place] - self.counted[place]) / max(self.counted[place], 1.0)


def held_out(count: int) -> Iterator[tuple[str, list[Cell]]]:
    """Yield designs of operators with their names and cells."""
    from mase_hw.cells import RomSource
    from mase_hw.emit.flow import quantize, to_hardware
    from mase_hw.emit.preflight import preflight
    from mase_hw.errors import MaseError
    from mase_hw.graph import trace
    from mase_hw.ops import operators

    done: set[tuple[object, ...]] = set()
    turn = 0
    for name, operator in operators().items():
        examples = operator.examples()
        if not examples or turn >= count:
            continue
        module, inputs = examples[0]
        graph = trace(module.eval(), tuple(value[:BATCH] for value in inputs), name="example")
        for place in range(len(FORMATS)):
            entry = FORMATS[(turn + place) % len(FORMATS)]
            try:
                quantized = quantize(graph, {"default": {"config": dict(entry)}})
                if preflight(quantized):
                    continue
                mg = to_hardware(quantized, parallelism=PARALLELISM)
            except MaseError:
                continue
            cells = [
                cell
                for node in mg.nodes
                if node.op == "call_function"
                for cell in mg.netlist(node).cells.values()
            ]
            # Many functions are the same tables with other words.
            kinds = tuple(
                (cell.module, *(str(value) for value in cell.parameters.values()))
                for cell in cells
                if not isinstance(cell, RomSource)
            )
            if not kinds or kinds in done:
                continue
            done.add(kinds)
            turn += 1
            yield f"{name}, {entry['name']}", cells
            break


def compared(name: str, cells: Sequence[Cell]) -> Comparison:
    """Return what Yosys and the estimator say of the cells of a design."""
    from mase_hw.hardware.estimate import of_cell
    from tests.bench.fit import count

    counted = count({str(number): cell for number, cell in enumerate(cells)}).values()
    guessed = [of_cell(cell) for cell in cells]
    return Comparison(
        name,
        _summed([tuple(item[key] for key in ("lut", "ff", "dsp", "bram")) for item in counted]),
        _summed([(item.lut, item.ff, item.dsp, item.bram) for item in guessed]),
    )


def _summed(items: Sequence[tuple[float, ...]]) -> tuple[float, float, float, float]:
    lut, ff, dsp, bram = (float(sum(column)) for column in zip(*items, strict=True))
    return lut, ff, dsp, bram


def spread(found: Sequence[Comparison], place: int) -> tuple[float, float]:
    """Return the median and the worst relative error of a resource."""
    errors = [abs(item.error(place)) for item in found]
    return statistics.median(errors), max(errors)
