"""Annotate every node with the module that computes it, its parameters and where constants lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from mase_hw._checks import check_choice
from mase_hw.cells import Device, Value
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.memory import AUTO, GENERIC, ON_CHIP
from mase_hw.graph.metadata import HardwareMetadata
from mase_hw.graph.nodes import update
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.hardware.broadcast import insert_broadcasts_transform_pass
from mase_hw.passes.hardware.end_rows import end_rows_analysis_pass
from mase_hw.passes.hardware.fifo import insert_fifos_transform_pass
from mase_hw.passes.hardware.memory import Memory, place_constants, split_styles
from mase_hw.passes.hardware.orders import assign_orders_transform_pass
from mase_hw.passes.hardware.parallelism import Parallelism, assign_parallelism_transform_pass


@graph_pass
def add_hardware_metadata_analysis_pass(
    mg: MaseGraph,
    *,
    parallelism: Parallelism | None = None,
    max_parallelism: int = 1,
    multipliers: int = 64,
    memory: Memory = ON_CHIP,
    queues: Mapping[str, int] | None = None,
    device: str = GENERIC,
) -> Result:
    """Choose orders and parallelism and annotate hardware.

    Args:
        mg: a quantised graph.
        parallelism: see `assign_parallelism_transform_pass`, as for `multipliers`.
        max_parallelism: a number, where no parallelism is given.
        multipliers: see there.
        memory: where constants lie, see `place_constants`.
        queues: how deep queues are, see `insert_fifos_transform_pass`.
        device: whose blocks cells use.

    Raises:
        ConfigError: for a device that nobody knows.
    """
    check_choice("device", device, Device.names())
    asked = max_parallelism if parallelism is None else parallelism
    lanes, memory = split_styles(asked, memory)
    plain = mg
    mg, ordered = assign_orders_transform_pass(mg)
    mg, expanded = insert_broadcasts_transform_pass(mg)
    # Work follows from where rows end, and where they can from what parallelism inserts.
    mg, _ = end_rows_analysis_pass(mg)
    mg, info = assign_parallelism_transform_pass(mg, parallelism=lanes, multipliers=multipliers)
    mg, ended = end_rows_analysis_pass(mg)
    # A table of another model is refused by its nodes, not by the styles that it names.
    port, outside, styles = place_constants(plain, memory)
    mg, queued = insert_fifos_transform_pass(mg, queues=queues)
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
