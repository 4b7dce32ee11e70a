"""Cells that are timed alone."""

from mase_hw.cells import Cell, Netlist, cells

SINGLE = [cell for kind in cells() for cell in kind.samples()]


def netlist_of(cell: Cell) -> Netlist | None:
    ports = {name: port for name, port in cell.inputs.items() if port.beats}
    # Biases and factors come beat for beat with results.
    if not ports or not cell.outputs or {"bias", "factor", "mask"} & set(ports):
        return None
    return Netlist.single(ports, cell)


TIMED = [(cell, netlist) for cell in SINGLE if (netlist := netlist_of(cell))]
