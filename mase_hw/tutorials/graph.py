"""The graph of BERT, and passes over it, some of them of one's own.

    python -m mase_hw.tutorials.graph

BERT-tiny comes with pretrained weights inside a package.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import mase_hw
from mase_hw.data import dataset
from mase_hw.emit.flow import canonicalize
from mase_hw.models import models
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    count_flops_analysis_pass,
    count_parameters_analysis_pass,
    report_operators_analysis_pass,
    verify_analysis_pass,
)
from mase_hw.training import scores_of

logger = logging.getLogger(__name__)
DROPOUT = torch.ops.aten.dropout.default


def count_dropout_analysis_pass(
    mg: mase_hw.MaseGraph, pass_args: object = None
) -> tuple[mase_hw.MaseGraph, dict[str, int]]:
    """Count the nodes that are dropout."""
    return mg, {"dropout": sum(node.target is DROPOUT for node in mg.nodes)}


def remove_dropout_transform_pass(
    mg: mase_hw.MaseGraph, pass_args: object = None
) -> tuple[mase_hw.MaseGraph, dict[str, list[str]]]:
    """Return a copy of the graph without dropout."""
    mg = mg.copy()
    removed = []
    for node in list(mg.nodes):
        if node.target is DROPOUT:
            # What reads the node reads its operand from now on; only then may it leave.
            node.replace_all_uses_with(node.all_input_nodes[0])
            mg.fx_graph.erase_node(node)
            removed.append(node.name)
    mg.recompile()
    return mg, {"removed": removed}


def operators(mg: mase_hw.MaseGraph) -> Counter[str]:
    """Return the number of nodes of each kind: inputs, weights, and ATen operators."""
    return Counter(str(node.target) if node.op == "call_function" else node.op for node in mg.nodes)


def main(folder: Path, *, samples: int = 16) -> dict[str, float]:
    """Run the tutorial, and return what the passes count.

    Args:
        folder: for the drawings of the graphs.
        samples: on which graphs are compared.
    """
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    ids = dataset("snippets").load().test_inputs[:samples]
    model = models()["bert-tiny"].build().get_submodule("model").eval()
    found: dict[str, Any] = {}

    # 1. Capture: example inputs by name decide which inputs the graph has. Each graph is drawn.
    given = {"input_ids": ids, "attention_mask": ids.ne(0).long(), "labels": ids[:, 0] % 2}
    names = list(given)
    graphs = {}
    for count in (1, 2, 3):
        inputs = {name: given[name][:2] for name in names[:count]}
        graphs[count] = mase_hw.trace(model, inputs, name=f"bert_{count}")
        graphs[count].draw(folder / f"{'-'.join(names[:count])}.svg")
        found[f"nodes with {names[count - 1]}"] = len(list(graphs[count].nodes))

    # 2. What differs: a mask is an input that every attention reads, after operators which select
    # and widen it; without one transformers makes none. Labels add the loss and what it reads.
    for count in (2, 3):
        more = operators(graphs[count]) - operators(graphs[count - 1])
        logger.info("with %s: %s", names[count - 1], dict(more))

    # 3. Metadata of a node: operator, shapes, source line. `print(mg)` shows those of all nodes.
    mg, _ = add_common_metadata_analysis_pass(graphs[2])
    layer = next(node for node in mg.nodes if node.name.endswith("self_query"))
    metadata = layer.meta["mase"]
    shapes = {name: tuple(spec.shape) for name, spec in metadata.common.operands.items()}
    logger.info("%s: %s of %s", layer.name, metadata.common.operator, shapes)
    logger.info("line %d: %s", metadata.source.line, metadata.source.code)

    # 4. An analysis pass of your own returns the graph and what it counts.
    _, info = count_dropout_analysis_pass(mg)
    found |= info

    # 5. FX refuses to erase a node that another one reads.
    dropout = next(node for node in mg.nodes if node.target is DROPOUT)
    try:
        mg.fx_graph.erase_node(dropout)
    except RuntimeError as error:
        logger.info("RuntimeError: %s", error)

    # 6. A transform pass of your own edits a copy. The graph is verified, and computes the same.
    changed, report = remove_dropout_transform_pass(mg)
    logger.info("removed: %s", report["removed"])
    verify_analysis_pass(changed)
    found["dropout left"] = count_dropout_analysis_pass(changed)[1]["dropout"]
    tensors = [given[name] for name in names[:2]]
    with torch.no_grad():
        difference = scores_of(changed(*tensors)) - scores_of(mg(*tensors))
    found["largest change"] = float(difference.abs().max())

    # 7. `canonicalize` merges what captured models write in many ways into operators, whose work
    # further passes count. It keeps dropout for training; hardware has none.
    mg = canonicalize(mg)
    found["canonical nodes"] = len(list(mg.nodes))
    _, info = report_operators_analysis_pass(mg)
    logger.info("operators: %s", info["operators"])
    found["operations"] = count_flops_analysis_pass(mg)[1]["flops"]
    found["parameters"] = count_parameters_analysis_pass(mg)[1]["parameters"]
    for name, value in found.items():
        logger.info("%s: %.4g", name, value)
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-graph"))
