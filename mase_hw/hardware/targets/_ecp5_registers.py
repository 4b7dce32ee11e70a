"""Registers of ECP5's multipliers and block memories (FPGA-TN-02205, FPGA-TN-02204).

Yosys maps a product to `MULT18X18D` and a memory to `DP16KD` without the registers that they have
inside. A register in front of a multiplier's operand, or behind a result that nobody else reads,
moves into it here: the same function, cycle for cycle, and a path that begins or ends there is
2 to 4 ns shorter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mase_hw._kinds import Record

Bit = int | str
# The clock of a register and its enable; the enable is "1" for none.
Control = tuple[Bit, Bit]

_OPERAND_BITS, _PRODUCT_BITS = 18, 36
_SIDE_BITS, _WIDE = 18, 36


@dataclass
class _Register:
    """A flip-flop without reset.

    Attributes:
        name: its cell.
        data: the net that it stores.
        control: when.
    """

    name: str
    data: Bit
    control: Control


@dataclass
class _Netlist:
    """A module of Yosys' JSON, with what drives and what reads each net.

    Attributes:
        cells: by name.
        drivers: the register that drives a net.
        readers: how often a net is read, by cells and by ports.
        stored: the registers that store a net.
    """

    cells: Record
    drivers: dict[Bit, _Register] = field(default_factory=dict)
    readers: dict[Bit, int] = field(default_factory=lambda: defaultdict(int))
    stored: dict[Bit, list[_Register]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, module: Record) -> _Netlist:
        net = cls(module["cells"])
        for port in module["ports"].values():
            if port["direction"] != "input":
                for bit in port["bits"]:
                    net.readers[bit] += 1
        for name, cell in net.cells.items():
            for port, bits in cell["connections"].items():
                if cell["port_directions"][port] == "input":
                    for bit in bits:
                        net.readers[bit] += 1
            register = plain_register(name, cell)
            if register:
                net.drivers[cell["connections"]["Q"][0]] = register
                net.stored[register.data].append(register)
        return net

    def operand(self, bits: Sequence[Bit]) -> tuple[Control, list[Bit]] | None:
        """Return the control of the registers in front of an operand, and what they store.

        None where a bit has no register, or registers differ. Constants stay.
        """
        registers = [self.drivers.get(bit) for bit in bits if isinstance(bit, int)]
        controls = {register.control for register in registers if register}
        if None in registers or len(controls) != 1:
            return None
        found = [self.drivers[bit].data if isinstance(bit, int) else bit for bit in bits]
        return controls.pop(), found

    def result(self, bits: Iterable[Bit]) -> tuple[Control, dict[Bit, _Register]] | None:
        """Return the control of the registers behind a result, by the net that each stores."""
        read = [bit for bit in bits if self.readers[bit]]
        if not read or any(self.readers[bit] != 1 or len(self.stored[bit]) != 1 for bit in read):
            return None
        registers = {bit: self.stored[bit][0] for bit in read}
        controls = {register.control for register in registers.values()}
        return (controls.pop(), registers) if len(controls) == 1 else None

    def remove(self, registers: Iterable[_Register]) -> None:
        """Remove registers; what they drove is driven by another."""
        for register in registers:
            self.stored[register.data].remove(register)
            self.readers[register.data] -= 1
            del self.drivers[self.cells.pop(register.name)["connections"]["Q"][0]]

    def sweep(self, registers: Iterable[Bit]) -> None:
        """Remove the registers of nets that nobody reads any more."""
        left = list(registers)
        while left:
            register = self.drivers.get(left.pop())
            if register:
                output = self.cells[register.name]["connections"]["Q"][0]
                if not self.readers[output]:
                    self.remove([register])


def absorb_registers(module: dict[str, object]) -> int:
    """Move registers into the multipliers and memories of a module.

    Args:
        module: of a netlist that Yosys wrote, changed in place.

    Returns:
        How many flip-flops fewer there are.
    """
    net = _Netlist.of(module)
    before = len(net.cells)
    for cell in [*net.cells.values()]:
        if cell["type"] == "MULT18X18D":
            _multiplier(net, cell)
        elif cell["type"] == "DP16KD":
            _memory(net, cell)
    return before - len(net.cells)


def plain_register(name: str, cell: Record) -> _Register | None:
    """Return a cell as a register that nothing resets; None for any other."""
    if cell["type"] != "TRELLIS_FF":
        return None
    nets = cell["connections"]
    # Yosys writes a space behind a string that could be a number.
    parameters = {name: str(value).rstrip() for name, value in cell["parameters"].items()}
    enabled = parameters.get("CEMUX", "1")
    enable = nets.get("CE", ["1"])[0] if enabled == "CE" else "1"
    plain = (
        nets.get("LSR", ["0"])[0] == "0"
        and parameters.get("CLKMUX", "CLK") == "CLK"
        and enabled in ("CE", "1")
        and parameters.get("REGSET", "RESET") == "RESET"
    )
    return _Register(name, nets["DI"][0], (nets["CLK"][0], enable)) if plain else None


def _multiplier(net: _Netlist, cell: Record) -> None:
    """Use the registers of both operands and of the product that have one clock and no enable."""
    nets, parameters = cell["connections"], cell["parameters"]
    clock: Bit | None = None
    for operand in "AB":
        ports = [f"{operand}{bit}" for bit in range(_OPERAND_BITS)]
        found = net.operand([nets[port][0] for port in ports])
        if found and found[0][1] == "1" and clock in (None, found[0][0]):
            clock = found[0][0]
            for port, data in zip(ports, found[1], strict=True):
                output = nets[port][0]
                nets[port] = [data]
                net.readers[output] -= 1
                net.readers[data] += 1
                net.sweep([output])
            _use(cell, f"INPUT{operand}")
    products = [nets[f"P{bit}"][0] for bit in range(_PRODUCT_BITS)]
    behind = net.result(products)
    if behind and behind[0][1] == "1" and clock in (None, behind[0][0]):
        clock = behind[0][0]
        _take_over(net, nets, [f"P{bit}" for bit in range(_PRODUCT_BITS)], behind[1])
        _use(cell, "OUTPUT")
    if clock is not None:
        for port, bit in {"CLK0": clock, "CE0": "1", "RST0": "0"}.items():
            nets[port] = [bit]
            cell["port_directions"][port] = "input"
            net.readers[bit] += 1
        parameters.setdefault("REG_PIPELINE_CLK", "NONE")


def _use(cell: Record, register: str) -> None:
    """Clock one of a multiplier's registers by its first clock."""
    for kind in ("CLK", "CE", "RST"):
        cell["parameters"][f"REG_{register}_{kind}"] = f"{kind}0"


@dataclass(frozen=True)
class Sides:
    """The sides of a memory that are read.

    Attributes:
        names: `A`, `B`, or both.
        clocks: of those sides; an idle one has none.
    """

    names: str
    clocks: frozenset[Bit]


def sides_of(cell: Record) -> Sides | None:
    """Return the sides of a memory that are read; None where output registers are not free."""
    nets, parameters = cell["connections"], cell["parameters"]
    wide = _is_wide(parameters)
    names = "AB" if wide else "".join(side for side in "AB" if nets[f"CLK{side}"][0] != "0")
    free = all(
        parameters[f"REGMODE_{side}"] == "NOREG" and nets[f"RST{side}"][0] == "0" for side in names
    )
    clocks = frozenset(nets[f"CLK{side}"][0] for side in names) - ({"0"} if wide else set())
    return Sides(names, clocks) if free and names else None


def use_output_registers(cell: Record, clock: Bit, enable: Bit) -> None:
    """Let the sides of a memory that are read pass their output registers."""
    sides = sides_of(cell)
    assert sides is not None
    for side in sides.names:
        cell["connections"][f"CLK{side}"] = [clock]
        cell["connections"][f"OCE{side}"] = [enable]
        cell["parameters"][f"REGMODE_{side}"] = "OUTREG"


def _is_wide(parameters: Record) -> bool:
    """True if both sides of a memory are the halves of one word."""
    return any(int(str(parameters[f"DATA_WIDTH_{side}"]), 2) == _WIDE for side in "AB")


def _memory(net: _Netlist, cell: Record) -> None:
    """Use the output registers of each side, or of both where they are the halves of one word."""
    nets, parameters = cell["connections"], cell["parameters"]
    wide = _is_wide(parameters)
    for sides in ["AB"] if wide else "AB":
        ports = [f"DO{side}{bit}" for side in sides for bit in range(_SIDE_BITS)]
        behind = net.result([nets[port][0] for port in ports])
        clocks = {nets[f"CLK{side}"][0] for side in sides} - ({"0"} if wide else set())
        free = all(
            parameters[f"REGMODE_{side}"] == "NOREG" and nets[f"RST{side}"][0] == "0"
            for side in sides
        )
        if not behind or not free or clocks != {behind[0][0]}:
            continue
        clock, enable = behind[0]
        _take_over(net, nets, ports, behind[1])
        for side in sides:
            # The idle side of a wide word, which is written nowhere, gets the clock too: its half
            # of the register has one, whichever that is.
            nets[f"CLK{side}"], nets[f"OCE{side}"] = [clock], [enable]
            parameters[f"REGMODE_{side}"] = "OUTREG"
            net.readers[clock] += 1
            net.readers[enable] += 1


def _take_over(
    net: _Netlist, nets: Record, ports: Iterable[str], registers: dict[Bit, _Register]
) -> None:
    """Let ports drive what the registers behind them drove."""
    for port in ports:
        register = registers.get(nets[port][0])
        if register:
            output = net.cells[register.name]["connections"]["Q"][0]
            net.remove([register])
            nets[port] = [output]
