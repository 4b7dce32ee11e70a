"""The table of a graph: one row per node."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch.fx import Node

from mase_hw.graph.captured import CapturedGraph
from mase_hw.graph.nodes import metadata
from mase_hw.graph.shapes import infer_specs
from mase_hw.ops import TensorSpec, operator_for

# Least widths: 80 characters show something of every column, however long the names are.
_COLUMNS = {"node": 14, "operator": 8, "shape": 6, "format": 8, "parallelism": 5, "source": 10}
_WIDTH = 80


def graph_table(mg: CapturedGraph) -> Table:
    """Return one row per node that is no constant, without the columns that hold nothing yet."""
    batch = "any batch, shapes of one inference" if mg.batched else "one inference, fixed shapes"
    title = f"{mg.name}: {batch}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, min_width=len(title))
    nodes = [node for node in mg.nodes if node.op != "get_attr"]
    rows = [_row(node, specs) for node, specs in zip(nodes, _specs(mg, nodes), strict=True)]
    filled = [any(row[place] != "-" for row in rows) for place in range(len(_COLUMNS))]
    for (column, width), shown in zip(_COLUMNS.items(), filled, strict=True):
        if shown:
            table.add_column(column, min_width=width, overflow="fold")
    for row in rows:
        table.add_row(*(cell for cell, shown in zip(row, filled, strict=True) if shown))
    return table


def render(table: Table, width: int = _WIDTH) -> str:
    """Return a table as plain text of `width` columns."""
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
    """Return the specs of a node's results; of its operands, for the output."""
    known = metadata(node).common
    if known is None:
        return {}
    return known.operands if node.op == "output" else known.results


def _specs(mg: CapturedGraph, nodes: Sequence[Node]) -> list[list[TensorSpec]]:
    """The specs of each node's results; those of a run where the graph has none."""
    known = [list(result_specs(node).values()) for node in nodes]
    if any(known) or not mg.example_inputs:
        return known
    inferred = infer_specs(mg)
    return [list(inferred.get(node, {}).values()) for node in nodes]


def _row(node: Node, specs: Sequence[TensorSpec]) -> list[str]:
    known = metadata(node)
    source = f"{Path(known.source.file).name}:{known.source.line}" if known.source.file else "-"
    return [
        node.name,
        operator_label(node),
        "\n".join(map(shape_label, specs)) or "-",
        "\n".join(str(spec.format) if spec.format else spec.dtype for spec in specs) or "-",
        "\n".join(map(parallelism_label, specs)) if metadata(node).common else "-",
        source,
    ]
