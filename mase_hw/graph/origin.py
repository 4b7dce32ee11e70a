"""Where a node comes from: what the capture noted, or what its metadata already says."""

from __future__ import annotations

from torch.fx import Node

from mase_hw.graph.metadata import SourceLocation
from mase_hw.graph.naming import module_call
from mase_hw.graph.nodes import metadata
from mase_hw.graph.source import location_of_trace


def origin(node: Node) -> tuple[str, SourceLocation]:
    """Return the module path and the user's source line of a node."""
    known = metadata(node)
    path = module_call(node).path or known.module_path
    source = location_of_trace(node.stack_trace)
    return path, source if source.file else known.source
