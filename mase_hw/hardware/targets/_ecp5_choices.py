"""Registers behind a choice of ECP5's block memories, moved in front of it (FPGA-TN-02204).

A memory that is deeper than a block lies in several, of which Yosys chooses one by multiplexers
behind the first register; the second one, behind them, cannot be a block's own. Here what each
block says and what chooses among them is registered in place of the choice: the same function,
cycle for cycle, and the 5 ns of a block without its output register are no longer on the path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mase_hw._kinds import Record, Table
from mase_hw.hardware.targets._ecp5_registers import (
    Bit,
    Control,
    plain_register,
    sides_of,
    use_output_registers,
)

# Cells that a choice is made of.
_CHOICES = ("LUT4", "PFUMX", "L6MUX21")
_MEMORY = "DP16KD"
_REGISTER = "TRELLIS_FF"


@dataclass
class _Choice:
    """What lies between some blocks and the registers behind them.

    Attributes:
        registers: names of the registers.
        cells: names of the cells of the choice.
        memories: names of the blocks.
        control: clock and enable of the registers.
    """

    registers: set[str] = field(default_factory=set)
    cells: set[str] = field(default_factory=set)
    memories: set[str] = field(default_factory=set)
    control: Control = ("0", "1")


def choose_behind_registers(module: Record) -> int:
    """Move registers of a module in front of choices of block memories.

    Args:
        module: of a netlist that Yosys wrote, changed in place.

    Returns:
        How many choices there were.
    """
    cells = module["cells"]
    drivers, readers = _nets(module)
    count = 0
    for choice in _choices(cells, drivers):
        if _is_free(choice, cells, drivers, readers):
            _move(choice, module)
            count += 1
    return count


def _nets(module: Table) -> tuple[dict[Bit, str], dict[Bit, list[str]]]:
    """Return the cell that drives each net, and those that read it; a port is called nothing."""
    drivers: dict[Bit, str] = {}
    readers: dict[Bit, list[str]] = defaultdict(list)
    for port in module["ports"].values():
        if port["direction"] != "input":
            for bit in port["bits"]:
                readers[bit].append("")
    for name, cell in module["cells"].items():
        for port, bits in cell["connections"].items():
            for bit in bits:
                if cell["port_directions"][port] == "input":
                    readers[bit].append(name)
                else:
                    drivers[bit] = name
    return drivers, readers


def _choices(cells: Table, drivers: Mapping[Bit, str]) -> Iterator[_Choice]:
    """Yield the choices of blocks, those of common blocks as one."""
    found: dict[str, _Choice] = {}
    for name, cell in cells.items():
        register = plain_register(name, cell)
        if register is None or cells.get(drivers.get(register.data, ""), {}).get("type") not in (
            _CHOICES
        ):
            continue
        made, memories = _behind(register.data, cells, drivers)
        if not memories:
            continue
        choice = _Choice({name}, made, memories, register.control)
        for other in {id(found[item]): found[item] for item in memories if item in found}.values():
            choice.registers |= other.registers
            choice.cells |= other.cells
            choice.memories |= other.memories
            if other.control != choice.control:
                choice.control = ("", "")
        found |= dict.fromkeys(choice.memories, choice)
    yield from {id(item): item for item in found.values()}.values()


def _behind(data: Bit, cells: Table, drivers: Mapping[Bit, str]) -> tuple[set[str], set[str]]:
    """Return the cells of the choice that makes a net, and the blocks that it chooses from."""
    made: set[str] = set()
    memories: set[str] = set()
    left = [data]
    while left:
        name = drivers.get(left.pop(), "")
        kind = cells[name]["type"] if name else ""
        if kind == _MEMORY:
            memories.add(name)
        elif kind in _CHOICES and name not in made:
            made.add(name)
            left += _bits(cells[name], "input")
    return made, memories


def _bits(cell: Table, direction: str) -> list[Bit]:
    return [
        bit
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == direction
        for bit in bits
        if isinstance(bit, int)
    ]


def _is_free(
    choice: _Choice,
    cells: Table,
    drivers: Mapping[Bit, str],
    readers: Mapping[Bit, list[str]],
) -> bool:
    """True if nothing else reads blocks and choice, and the blocks' registers are free."""
    inside = choice.cells | choice.registers
    outputs = [
        bit for name in choice.cells | choice.memories for bit in _bits(cells[name], "output")
    ]
    if any(not set(readers[bit]) <= inside for bit in outputs):
        return False
    # What a register stores, nobody else does.
    stored = [cells[name]["connections"]["DI"][0] for name in choice.registers]
    if any(readers[bit] != [name] for bit, name in zip(stored, choice.registers, strict=True)):
        return False
    if any(drivers[bit] not in choice.cells for bit in stored):
        return False
    return all(
        sides is not None and all(clock == choice.control[0] for clock in sides.clocks)
        for sides in (sides_of(cells[name]) for name in choice.memories)
    )


def _move(choice: _Choice, module: Record) -> None:
    """Register what enters a choice, and let it drive what its registers drove."""
    cells = module["cells"]
    for name in choice.memories:
        use_output_registers(cells[name], *choice.control)
    result: dict[Bit, Bit] = {}
    pattern: Record = {}
    for name in choice.registers:
        pattern = cells.pop(name)
        result[pattern["connections"]["DI"][0]] = pattern["connections"]["Q"][0]
    own = {bit for name in choice.cells | choice.memories for bit in _bits(cells[name], "output")}
    entering = sorted({bit for name in choice.cells for bit in _bits(cells[name], "input")} - own)
    free = _first_free(module)
    late = {bit: free + number for number, bit in enumerate(entering)}
    for bit, copy in late.items():
        nets = {**pattern["connections"], "DI": [bit], "Q": [copy]}
        cells[f"late${copy}"] = {**pattern, "connections": nets}
    for name in choice.cells:
        nets = cells[name]["connections"]
        for port, bits in nets.items():
            known = late if cells[name]["port_directions"][port] == "input" else result
            nets[port] = [known.get(bit, bit) for bit in bits]


def _first_free(module: Table) -> int:
    """Return a number that no net has, nor any above it."""
    everything: Iterable[Bit] = (
        bit
        for cell in module["cells"].values()
        for bits in cell["connections"].values()
        for bit in bits
    )
    ports = (bit for port in module["ports"].values() for bit in port["bits"])
    names = (bit for name in module.get("netnames", {}).values() for bit in name["bits"])
    numbers = [bit for some in (everything, ports, names) for bit in some if isinstance(bit, int)]
    return max(numbers, default=1) + 1
