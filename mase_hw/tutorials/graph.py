"""The graph of a model, and passes over it, two of them of one's own.

    python -m mase_hw.tutorials.graph

BERT-tiny comes with pretrained weights inside a package.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import torch

import mase_hw
from mase_hw.data import dataset
from mase_hw.emit.flow import canonicalize
from mase_hw.models import models
from mase_hw.passes import (
    count_flops_analysis_pass,
    count_parameters_analysis_pass,
    report_operators_analysis_pass,
)

logger = logging.getLogger(__name__)


def longest_path_analysis_pass(
    mg: mase_hw.MaseGraph, pass_args: object = None
) -> tuple[mase_hw.MaseGraph, dict[str, int]]:
    """Count the operators on the longest path from an input to an output."""
    depths: dict[str, int] = {}
    for node in mg.nodes:
        before = max((depths[item.name] for item in node.all_input_nodes), default=0)
        depths[node.name] = before + (node.op == "call_function")
    return mg, {"longest path": max(depths.values())}


def relu_for_gelu_transform_pass(
    mg: mase_hw.MaseGraph, pass_args: object = None
) -> tuple[mase_hw.MaseGraph, dict[str, list[str]]]:
    """Return a copy of the graph in which every GELU is a ReLU."""
    mg = mg.copy()
    replaced = []
    for node in mg.nodes:
        if node.target is torch.ops.aten.gelu.default:
            node.target, node.kwargs = torch.ops.aten.relu.default, {}
            replaced.append(node.name)
    mg.recompile()
    return mg, {"replaced": replaced}


def main(folder: Path, *, samples: int = 16) -> dict[str, float]:
    """Run the tutorial, and return what the passes count.

    Args:
        folder: for the drawings of the graph.
        samples: on which both graphs are compared.
    """
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    ids = dataset("snippets").load().test_inputs[:samples]
    found: dict[str, Any] = {}

    # 1. Capture: ATen operators, with shapes and the source lines that they come from.
    # `print(mg)` shows them as a table.
    mg = mase_hw.trace(models()["bert-tiny"].build().eval(), ids[:2], name="bert")

    # 2. The canonical graph: what does nothing at inference has left, and every node knows its
    # operator. It is drawn with shapes.
    found["captured nodes"] = len(list(mg.nodes))
    mg = canonicalize(mg)
    found["canonical nodes"] = len(list(mg.nodes))
    mg.draw(folder / "bert.svg")

    # 3. Analysis passes return the graph and what they found.
    _, info = report_operators_analysis_pass(mg)
    logger.info("operators: %s", info["operators"])
    _, info = count_flops_analysis_pass(mg)
    found["operations"] = info["flops"]
    _, info = count_parameters_analysis_pass(mg)
    found["parameters"] = info["parameters"]

    # 4. One of your own is a function of the same shape.
    _, info = longest_path_analysis_pass(mg)
    found |= info

    # 5. A transform pass of your own edits a copy: the given graph stays as it was.
    changed, info = relu_for_gelu_transform_pass(mg)
    logger.info("replaced: %s", info["replaced"])
    found["replaced"] = len(info["replaced"])
    with torch.no_grad():
        found["largest change"] = float((changed(ids) - mg(ids)).abs().max())
    for name, value in found.items():
        logger.info("%s: %.4g", name, value)
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-graph"))
