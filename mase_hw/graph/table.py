"""The table of a graph: one row per node."""

from __future__ import annotations

import io
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from torch.fx import Node

from mase_hw.graph.captured import CapturedGraph
from mase_hw.graph.metadata import metadata
from mase_hw.ops import TensorSpec, operator_for

# Least widths: 80 characters show something of every column, however long the names are.
_COLUMNS = {
    "node": 12,
    "operator": 8,
    "shape": 6,
    "format": 7,
    "parallelism": 5,
    "module": 8,
    "source": 10,
}
_MIN_WIDTH_COLUMNS = 120


def graph_table(mg: CapturedGraph) -> Table:
    """Return one row per node that is no constant."""
    table = Table(title=f"{mg.name}: {_batch(mg)}", title_justify="left")
    for column, width in _COLUMNS.items():
        table.add_column(column, min_width=width, overflow="fold")
    for node in mg.nodes:
        if node.op != "get_attr":
            table.add_row(*_row(node))
    return table


def render(table: Table, width: int = _MIN_WIDTH_COLUMNS) -> str:
    """Return a table as plain text of at least `width` columns."""
    console = Console(
        file=io.StringIO(), width=width, color_system=None, legacy_windows=False, emoji=False
    )
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def operator_label(node: Node) -> str:
    """Return the operator's name, the ATen target where no operator covers it, or the node's kind.

    A target without an operator is set in brackets.
    """
    if node.op != "call_function":
        return {"placeholder": "input", "get_attr": "constant"}.get(node.op, node.op)
    operator = operator_for(node.target)
    if operator is not None:
        return operator.name
    return f"({getattr(node.target, '__name__', str(node.target))})"


def shape_label(spec: TensorSpec) -> str:
    """Return a shape such as `1 x 16`."""
    return " x ".join(map(str, spec.shape)) or "scalar"


def parallelism_label(spec: TensorSpec) -> str:
    """Return the parallelism as `DIM_1 x DIM_0`."""
    return f"{spec.parallelism[0]} x {spec.parallelism[1]}"


def result_specs(node: Node) -> Mapping[str, TensorSpec]:
    """Return what is known of a node's results; of its operands, for the output."""
    known = metadata(node).common
    if known is None:
        return {}
    return known.operands if node.op == "output" else known.results


def _row(node: Node) -> list[str]:
    specs = list(result_specs(node).values())
    known = metadata(node)
    source = f"{known.source.file}:{known.source.line}" if known.source.file else "-"
    return [
        node.name,
        operator_label(node),
        "\n".join(map(shape_label, specs)) or "-",
        "\n".join(str(spec.format) if spec.format else spec.dtype for spec in specs) or "-",
        "\n".join(map(parallelism_label, specs)) or "-",
        known.module_path or "-",
        source,
    ]


def _batch(mg: CapturedGraph) -> str:
    return "any batch, shapes of one inference" if mg.batched else "one inference, fixed shapes"
