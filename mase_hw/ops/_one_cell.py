"""Netlists of one cell, and the fields that such cells have in common."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

from torch import Tensor

from mase_hw.cells import Cell, Netlist, NetlistBuilder, Port, RomSource, Wire
from mase_hw.formats import Encoding
from mase_hw.ops._base import Call


def fields(call: Call) -> tuple[Encoding, Encoding, int]:
    """Return the first fields of a cell: encodings of first operand and result, and lanes."""
    data, result = call.operands["data_in_0"].quantized, call.result
    return data.encoding, result.quantized.encoding, result.lanes


def row_fields(call: Call) -> tuple[Encoding, Encoding, int, int, int]:
    """Return those of a cell that knows rows: lanes of a row, rows, and elements of a row."""
    data, result, _ = fields(call)
    rows, lanes = call.result.parallelism
    return data, result, lanes, rows, call.result.size[1]


def one_cell(call: Call, cell: Cell, first: Cell | None = None) -> Netlist:
    """Return a cell that takes every operand; constants come from memories.

    Args:
        call: the call.
        cell: the cell.
        first: a cell before it, which prepares the first operand.
    """
    net = NetlistBuilder({name: Port.of(spec) for name, spec in call.streams.items()})
    wires: dict[str, Wire] = {
        name: net.memory(name, constant_memory(call, name))
        if name in call.constants
        else net.input(name)
        for name in call.operands
    }
    if first is not None:
        wires["data_in_0"] = net.add(first, "phase", data_in_0=wires["data_in_0"])
    return net.netlist(data_out_0=net.add(cell, "", **wires))


def constant_memory(call: Call, name: str) -> RomSource:
    """Return the shortest memory that delivers a constant beat for beat with the result.

    Trailing beats that repeat become `hold`, leading repetitions become one period.
    """
    spec = replace(call.result, format=call.operands[name].format)

    def shortest() -> tuple[Tensor, int]:
        codes = call.constant_codes(name)
        return shortest_beats(spec.to_beats(codes.broadcast_to(spec.shape)))

    tiles = f"{spec.parallelism} {spec.order}"
    beats, hold = call.once(f"beats of {name}, {tiles}", shortest)
    return RomSource.of_beats(spec, len(beats), lambda: beats, hold=hold)


def shortest_beats(beats: Tensor) -> tuple[Tensor, int]:
    """Return the shortest period of beats, and for how many beats each of it stays."""
    # A beat stays for as long as the first one does, at most.
    changed = beats.ne(beats[:1]).any(dim=1).nonzero()
    longest = int(changed[0]) if len(changed) else len(beats)
    holds = [n for n in reversed(_divisors(len(beats))) if n <= longest]
    hold = next(n for n in holds if _blocks(beats, n).eq(beats[::n, None]).all())
    beats = beats[::hold]
    period = next(
        n
        for n in _divisors(len(beats))
        if beats[n : 2 * n].eq(beats[: len(beats[n : 2 * n])]).all()
        and _blocks(beats, n).eq(beats[:n]).all()
    )
    return beats[:period], hold if period > 1 else 1


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _blocks(beats: Tensor, length: int) -> Tensor:
    return beats.view(-1, length, beats.shape[-1])
