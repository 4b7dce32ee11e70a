"""Rotation of a layer's inputs before quantisation, block by block.

`W x = (W R^T) (R x)` with `R` orthogonal: a Hadamard matrix with random signs spreads what is large
in one channel over all channels of its block, so that they share a scale better. Blocks of a format
keep to themselves: a rotation of the whole row would carry an outlier into every block.

Source: Ashkboos et al., "QuaRot: Outlier-Free 4-Bit Inference in Rotated LLMs" (2024),
arXiv:2404.00456; block by block as in Egiazarian et al., "Bridging the Gap Between Promise and
Performance for Microscaling FP4 Quantization" (2025), arXiv:2509.23202.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import MaseMetadata
from mase_hw.graph.nodes import metadata, unique_name
from mase_hw.graph.rebuild import set_tensor
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.compression.walk import Layer, layers


@graph_pass
def rotate_transform_pass(
    mg: MaseGraph, *, block: int = 32, nodes: Sequence[str] | None = None, seed: int = 0
) -> Result:
    """Rotate the inputs of layers, and their weights back; layers of one input share the rotation.

    The rotation of a stream is a layer itself, whose matrix has only plus and minus one value in
    blocks along its diagonal.

    Args:
        mg: a canonical graph without number formats.
        block: the size of a rotation, a power of two: that of the format's blocks.
        nodes: names of layers, all when not given.
        seed: of the signs.

    Returns:
        A new graph that computes the same function, and `rotated`, the names of the layers by the
        rotation that they read, and `left`, those whose inputs the block does not divide.

    Raises:
        ConfigError: for an argument that is not legal, or a graph with number formats.
    """
    if not isinstance(block, int) or isinstance(block, bool) or block < 2 or block & (block - 1):
        raise ConfigError(f"rotation: block is {block!r}; allowed: 2, 4, 8, ...")
    if mg.is_quantized:
        raise ConfigError("rotation: the graph is quantized; rotate, then quantize")
    mg = mg.copy().eval()
    generator = torch.Generator().manual_seed(seed)
    rotated: dict[str, list[str]] = {}
    left: list[str] = []
    made: dict[Node, tuple[Node, Tensor]] = {}
    for layer in layers(mg, nodes).values():
        weight = mg.constant(layer.parameter)
        if weight.shape[1] % block:
            left.append(layer.node.name)
            continue
        if layer.source not in made:
            matrix = _rotation(weight.shape[1], block, generator).to(weight.dtype)
            made[layer.source] = _insert(mg, layer, matrix), matrix
        stream, matrix = made[layer.source]
        layer.node.replace_input_with(layer.source, stream)
        with torch.no_grad():
            weight.copy_((weight.double() @ matrix.double().T).to(weight.dtype))
        rotated.setdefault(stream.name, []).append(layer.node.name)
    mg.recompile()
    mg, _ = add_common_metadata_analysis_pass(mg, {})
    return mg, {"rotated": rotated, "left": left}


def hadamard(size: int) -> Tensor:
    """Return the Hadamard matrix of a power of two, orthonormal, float64 (Sylvester 1867)."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix.div(size**0.5)


def _rotation(size: int, block: int, generator: torch.Generator) -> Tensor:
    signs = torch.randint(0, 2, (size,), generator=generator).double() * 2 - 1
    unit = torch.eye(size // block, dtype=torch.float64)
    return torch.kron(unit, hadamard(block)).mul(signs)


def _insert(mg: MaseGraph, layer: Layer, matrix: Tensor) -> Node:
    """Insert a layer like the one whose input is rotated, without bias."""
    taken = [node.name for node in mg.nodes]
    name = unique_name(f"{layer.source.name}_rotation", taken)
    target = f"{name}_matrix"
    set_tensor(mg.model, target, matrix.clone())
    known = metadata(layer.node)
    with mg.fx_graph.inserting_after(layer.source):
        node = mg.fx_graph.create_node(
            "call_function", layer.node.target, (layer.source, layer.parameter), {}, name=name
        )
    with mg.fx_graph.inserting_before(node):
        constant = mg.fx_graph.create_node(
            "get_attr", target, name=unique_name(target, [*taken, name])
        )
    node.replace_input_with(layer.parameter, constant)
    for item in (node, constant):
        item.meta["mase"] = MaseMetadata(known.module_path, known.source)
    return node
