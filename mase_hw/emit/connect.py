"""The nets of a netlist's streams, and the ports of its instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mase_hw.cells import Cell, Netlist, Port, Wire
from mase_hw.emit.design import Net

INSTANCE_SUFFIX = "_inst"

Ports = tuple[tuple[tuple[str, str], ...], ...]


def inner_nets(
    name: Callable[[str], str], netlist: Netlist, results: Mapping[Wire, Net]
) -> dict[Wire, Net]:
    """Return the nets of every stream that a cell of the netlist drives.

    Args:
        name: returns the name of a net, given that of its cell, or of the operand for a constant.
        netlist: the cells.
        results: the nets of the streams that leave.
    """
    operands = {name: operand for operand, name in netlist.constants.items()}
    nets = {}
    for owner, cell in netlist.cells.items():
        stem = operands.get(owner, owner.removesuffix(INSTANCE_SUFFIX))
        for port, given in cell.outputs.items():
            wire = Wire(owner, port)
            nets[wire] = results.get(wire) or Net(name(stem), given.fields)
    return nets


def connect(cell: Cell, name: str, streams: Mapping[str, Net]) -> tuple[Ports, tuple[str, ...]]:
    """Return the ports of an instance in groups, and the nets that only take what nobody reads.

    Args:
        cell: what it is an instance of.
        name: of the instance.
        streams: the net on each stream port; an input without one has valid data of zeros.
    """
    ports: list[tuple[tuple[str, str], ...]] = []
    unused: list[str] = []
    stem = f"unused_{name.removesuffix(INSTANCE_SUFFIX)}"
    for port, item in cell.inputs.items():
        if port in streams:
            ports.append(_connected(item, port, streams[port], "'0"))
        else:
            ready = f"{stem}_{port}_ready"
            ports.append(
                (*_absent(item, port), (f"{port}_valid", "1'b1"), (f"{port}_ready", ready))
            )
            unused.append(ready)
    for port, item in cell.outputs.items():
        ports.append(_connected(item, port, streams[port], stem))
        unused += [f"{stem}_{port}{suffix}" for suffix in item.optional]
    if cell.signals:
        ports.append(tuple(cell.signals.items()))
    if cell.unread:
        ports.append(tuple((port, f"{stem}_{port}") for port in cell.unread))
        unused += [f"{stem}_{port}" for port in cell.unread]
    return tuple(ports), tuple(unused)


def _absent(item: Port, port: str) -> tuple[tuple[str, str], ...]:
    suffixes = [*(part.suffix for part in item.fields), *item.optional]
    return tuple((f"{port}{suffix}", "'0") for suffix in suffixes)


def _connected(item: Port, port: str, net: Net, other: str) -> tuple[tuple[str, str], ...]:
    """Return the ports of a stream with their nets.

    Args:
        item: the port.
        port: its name.
        net: the stream.
        other: what optional signals are tied to: `'0`, or the stem of unused nets.
    """
    handshake = ((f"{port}_valid", f"{net.name}_valid"), (f"{port}_ready", f"{net.name}_ready"))
    if item.packed:
        return ((port, net.payload), *handshake)
    payload = [(f"{port}{part.suffix}", f"{net.name}{part.suffix}") for part in item.fields]
    for suffix in item.optional:
        payload.append((f"{port}{suffix}", other if other == "'0" else f"{other}_{port}{suffix}"))
    return (*payload, *handshake)
