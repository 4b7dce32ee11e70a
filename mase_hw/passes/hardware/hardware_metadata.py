"""Annotate every node with the module that computes it, its parameters and where constants lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mase_hw.cells import Device, Value
from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.memory import AUTO, GENERIC, ON_CHIP
from mase_hw.graph.metadata import HardwareMetadata, update
from mase_hw.passes._pass import Result
from mase_hw.passes.hardware.broadcast import insert_broadcasts_transform_pass
from mase_hw.passes.hardware.end_rows import end_rows_analysis_pass
from mase_hw.passes.hardware.fifo import insert_fifos_transform_pass
from mase_hw.passes.hardware.memory import place_constants, split_styles
from mase_hw.passes.hardware.orders import assign_orders_transform_pass
from mase_hw.passes.hardware.parallelism import assign_parallelism_transform_pass


def add_hardware_metadata_analysis_pass(
    mg: MaseGraph, pass_args: Mapping[str, Any] | None = None
) -> Result:
    """Choose orders and parallelism and annotate hardware.

    Args:
        mg: a quantised graph.
        pass_args: `parallelism` and `multipliers`, as `assign_parallelism_transform_pass` takes
            them; `max_parallelism` is another name for a number. `memory` says where constants lie,
            as `place_constants` takes it, `queues` how deep queues are, as
            `insert_fifos_transform_pass` takes it, `device` whose blocks cells use.

    Raises:
        ConfigError: for a device that nobody knows.
    """
    given = dict(pass_args or {})
    if "max_parallelism" in given:
        given.setdefault("parallelism", given.pop("max_parallelism"))
    queues = given.pop("queues", None)
    device = given.pop("device", GENERIC)
    if device not in Device.names():
        raise ConfigError(f"device is {device!r}; allowed: {', '.join(Device.names())}")
    memory = given.pop("memory", ON_CHIP)
    if "parallelism" in given:
        given["parallelism"], memory = split_styles(given["parallelism"], memory)
    plain = mg
    mg, ordered = assign_orders_transform_pass(mg)
    mg, expanded = insert_broadcasts_transform_pass(mg)
    # Work follows from where rows end, and where they can from what parallelism inserts.
    mg, _ = end_rows_analysis_pass(mg)
    mg, info = assign_parallelism_transform_pass(mg, given)
    mg, ended = end_rows_analysis_pass(mg)
    # A table of another model is refused by its nodes, not by the styles that it names.
    port, outside, styles = place_constants(plain, memory)
    mg, queued = insert_fifos_transform_pass(mg, {"queues": {} if queues is None else queues})
    for node in mg.nodes:
        if node.op != "call_function":
            continue
        style = styles.get(node.name, AUTO)
        netlist = mg.netlist(node, style, device, outside.get(node.name, ()))
        main = netlist.main
        update(
            node,
            hardware=HardwareMetadata(
                module=main.module if main else None,
                parameters=_numbers(main.parameters) if main else {},
                toolchain="INTERNAL_RTL",
                dependence_files=tuple(
                    f"{name}.sv"
                    for name in sorted({cell.module for cell in netlist.cells.values()})
                ),
                interface={
                    operand: "AXI" if operand in outside.get(node.name, ()) else "BRAM"
                    for operand in netlist.constants
                },
                work_cycles=netlist.busy_cycles,
                multipliers=netlist.multipliers,
                memory=asdict(port) if node.name in outside else {},
                memory_style=style,
                device=device,
            ),
        )
    return mg, {**ordered, **expanded, **info, **ended, **queued}


def _numbers(parameters: Mapping[str, Value]) -> dict[str, int | str]:
    """Return parameters as metadata keep them: what is no number as its text."""
    return {
        name: value if isinstance(value, int) else str(value) for name, value in parameters.items()
    }
