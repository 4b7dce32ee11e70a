"""Images of weights, which the registers of a design load between inferences.

An image is words of 32 bits, low byte first: the hash of the design (two words), the number of
bytes that follow, these bytes with zeros up to a whole word, and their CRC-32. The bytes are those
of the memories in `loads` of `design.json`, word by word, each in whole bytes.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path

from mase_hw.emit.design import Design, DesignSummary
from mase_hw.emit.project import load_graph, tensor_parameters
from mase_hw.emit.reload import reloadable_design
from mase_hw.emit.render import render_top
from mase_hw.errors import ConfigError, DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import tensor_arguments
from mase_hw.graph.weights import with_tensors


def pack_weights(project: Path, weights: Path) -> bytes:
    """Return the image of a checkpoint for a project, in the formats that its design has.

    Args:
        project: emitted with layers that can be loaded, behind bus ports with registers.
        weights: `.safetensors`, `.pt` or `.mase`, with the names of the graph in `model.mase`.

    Raises:
        EmissionError: when the folder is no project.
        ConfigError: when its weights cannot be loaded.
        DataError: for tensors that are missing, of another shape or beyond the range of their
            format, and for changes in what cannot be loaded.
    """
    mg, summary = load_graph(project)
    bus = json.loads((project / "design.json").read_text()).get("bus")
    if not summary.loads or bus is None:
        raise ConfigError(
            f"{project} has no weights that can be loaded: emit it with --reload and --bus"
        )
    design = checked_design(project, mg, summary, weights)
    words = {item.file: item.words for item in design.memories}
    data = b"".join(
        word.to_bytes(item.word_bytes, "little")
        for item in summary.loads
        for word in words[item.file]
    )
    return image(int(bus["hash"], 16), data)


def image(design: int, data: bytes) -> bytes:
    """Return the image of bytes for a design."""
    padded = data + bytes(-len(data) % 4)
    return struct.pack("<QI", design, len(data)) + padded + struct.pack("<I", zlib.crc32(data))


def checked_design(project: Path, mg: MaseGraph, summary: DesignSummary, weights: Path) -> Design:
    """Return the design that a checkpoint makes, whose hardware is the project's.

    Raises:
        DataError: where it is not.
    """
    new = with_tensors(mg, weights)
    layers = list(dict.fromkeys(_node_of(mg, item.constant) for item in summary.loads))
    _check_ranges(new, layers, weights)
    design = reloadable_design(new, layers)
    loaded = {item.file for item in summary.loads}
    for memory in design.memories:
        if memory.file not in loaded and (project / memory.file).read_text() != memory.render():
            raise DataError(
                f"{weights} changes the constants of {memory.node}, which cannot be loaded into "
                f"this design; emit it with {memory.node} in --reload"
            )
    top = (project / "top.sv").read_text()
    restated = replace(design, tensor_parameters=tensor_parameters(new, design))
    if top not in (render_top(design), render_top(restated)):
        raise DataError(f"{weights} asks for other hardware than {project}: emit it again")
    return design


def _node_of(mg: MaseGraph, constant: str) -> str:
    names = [node.name for node in mg.nodes if constant.startswith(f"{node.name}_")]
    return max(names, key=len)


def _check_ranges(mg: MaseGraph, layers: list[str], weights: Path) -> None:
    """Raise where a weight lies beyond the range of its format."""
    for node in mg.nodes:
        if node.name not in layers:
            continue
        call = mg.call(node)
        for name, _ in tensor_arguments(node):
            if name not in call.constants:
                continue
            values, number = call.constants[name], call.operands[name].quantized
            if (count := number.clipped(values)) > 0:
                raise DataError(
                    f"{count} of {values.numel()} values of {name} of {node.name} in {weights} lie "
                    f"beyond {number}, the format of the design; the largest is "
                    f"{float(values.abs().max()):g}"
                )
