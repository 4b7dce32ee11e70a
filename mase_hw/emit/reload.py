"""Designs whose constants can be loaded: sources that take words, and room for any words.

Hardware is as narrow as its weights allow. Where they can be loaded, it must be as wide as the
widest ask for: each sum is linear in the weights, so that its bounds are reached where every weight
of a layer is the least or the greatest code, and likewise every bias. The design is built for
all those corners, and each instance is that of the widest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import PurePath

import torch
from torch.fx import Node

from mase_hw.cells import RomSource
from mase_hw.cells.ram_source import RamSource
from mase_hw.emit.build import build_design
from mase_hw.emit.design import Constant, Design, Instance, Memory
from mase_hw.errors import EmissionError
from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import metadata, tensor_arguments, update
from mase_hw.graph.physical import PhysicalGraph, physical
from mase_hw.registry import nearest

# Stands for every layer that can be loaded.
EVERY = "*"


def with_headroom(mg: MaseGraph, layers: Sequence[str], bits: int) -> MaseGraph:
    """Return a quantised graph whose loadable constants have bits of range to spare.

    Args:
        mg: the graph.
        layers: names of nodes, or `*` for all.
        bits: that each format of their constants has more, above those that it has; its steps stay.

    Raises:
        EmissionError: for a constant whose format has no such bits.
    """
    mg = mg.copy()
    for node in mg.nodes:
        known = metadata(node).common
        is_chosen = list(layers) == [EVERY] or node.name in layers
        if not known or node.op != "call_function" or not is_chosen:
            continue
        call = mg.call(node)
        operands = dict(known.operands)
        for name in call.constants:
            number = operands[name].format if name in operands else None
            if number is None:
                continue
            width = getattr(number, "width", None)
            if width is None or number.scaled(0.0) is None:
                raise EmissionError(
                    f"{name} of {node.name} is {number}, which has no bits to spare; leave "
                    f"{node.name} out of --reload, or give it another format"
                )
            wider = replace(number, width=width + bits)  # type: ignore[call-arg]
            operands[name] = replace(operands[name], format=wider)
        update(node, common=replace(known, operands=operands))
    return mg


def reloadable_design(mg: MaseGraph, layers: Sequence[str]) -> Design:
    """Return the design of a graph, in which the constants of some layers can be loaded.

    Args:
        mg: a graph that went through the hardware metadata pass.
        layers: names of nodes, or `*` for all that have weights on the chip.

    Raises:
        EmissionError: for a layer that has none, or whose hardware follows from them.
    """
    real = build_design(mg)
    chosen = _chosen(mg, real, layers)
    corners = [build_design(item) for item in _corners(mg, chosen)]
    base = corners[0]
    sources = {item.name: item for item in real.constants}
    if [item.name for item in base.constants] != list(sources):
        raise EmissionError("the constants of the design depend on its weights: none can be loaded")
    order = {item.name: number for number, item in enumerate(chosen)}
    words = {item.file: item for item in real.memories}
    sections = []
    for section in base.sections:
        instances = []
        for item in section.instances:
            alike = [_named(design, item) for design in corners]
            widest = _widest(item, alike)
            constant = next((name for name in order if item.streams.get("data_out") == name), None)
            if constant is not None:
                cell = RamSource.at(order[constant], sources[constant].source)
                widest = replace(widest, cell=cell)
                ports = (*widest.ports, tuple(widest.cell.signals.items()))
                widest = replace(widest, ports=ports)
            files = {key: _loaded(memory, words, chosen) for key, memory in widest.files.items()}
            instances.append(replace(widest, files=files))
        sections.append(replace(section, instances=tuple(instances)))
    for design in corners:
        if (design.interval_cycles, design.latency_cycles) != (
            base.interval_cycles,
            base.latency_cycles,
        ):
            raise EmissionError(
                "the cycles of the design depend on its weights: none can be loaded"
            )
    return replace(
        base,
        sections=tuple(sections),
        memories=tuple(_loaded(item, words, chosen) for item in base.memories),
        constants=tuple(sources[item.name] for item in base.constants),
        loads=tuple(sources[name] for name in order),
        agreement=real.agreement,
    )


def _chosen(mg: MaseGraph, design: Design, layers: Sequence[str]) -> tuple[Constant, ...]:
    """Return the constants that can be loaded, in the order of the design."""
    if isinstance(physical(mg), PhysicalGraph):
        raise EmissionError("layers on the hardware of one cannot be loaded; leave --reuse out")
    on_chip = [item for item in design.constants if item.file.startswith("mem/")]
    known = dict.fromkeys(item.node for item in on_chip)
    wanted = list(known) if list(layers) == [EVERY] else list(layers)
    for name in wanted:
        if name not in known:
            raise EmissionError(
                f"{name} has no weights on the chip that could be loaded; {nearest(name, known)}"
            )
    if not wanted:
        raise EmissionError(f"{design.name} has no weights on the chip that could be loaded")
    found = tuple(item for item in on_chip if item.node in wanted)
    for item in found:
        spec = item.source.spec
        if spec is None or len(spec.quantized.stream_fields(1)) > 1:
            raise EmissionError(
                f"{item.operand} of {item.node} is in blocks, which cannot be loaded; take a "
                "format of single numbers"
            )
    return found


def _corners(mg: MaseGraph, chosen: Sequence[Constant]) -> list[MaseGraph]:
    """Return graphs whose chosen constants are all their least or all their greatest codes."""
    operands = sorted({item.operand for item in chosen})
    found = []
    for ends in product((0, 1), repeat=len(operands)):
        copy = mg.copy()
        nodes = {node.name: node for node in copy.nodes}
        for item in chosen:
            node = nodes[item.node]
            call = copy.call(node)
            number = call.operands[item.operand].quantized
            held = dict(tensor_arguments(node))[item.operand]
            assert isinstance(held, Node)
            tensor = copy.constant(held)
            code = _ends(number)[ends[operands.index(item.operand)]]
            with torch.no_grad():
                tensor.copy_(number.decode(torch.full(tensor.shape, code)))
        found.append(copy)
    return found


def _ends(number: Format) -> tuple[int, int]:
    """Return the least and the greatest code of a format."""
    bits = number.stream_fields(1)[0].width_bits
    codes = number.from_fields({"": torch.arange(1 << bits)[:, None]}).flatten()
    values = number.decode(codes)
    legal = codes[values.isfinite() & (number.encode(torch.nan_to_num(values)) == codes)]
    order = number.decode(legal)
    return int(legal[order.argmin()]), int(legal[order.argmax()])


def _named(design: Design, instance: Instance) -> Instance:
    found = [item for item in design.instances if item.name == instance.name]
    if len(found) != 1 or found[0].module != instance.module:
        raise EmissionError(f"the hardware of {instance.node} follows from its weights")
    return found[0]


def _widest(instance: Instance, alike: Sequence[Instance]) -> Instance:
    """Return the instance whose numbers are the largest, where nothing else differs."""
    cells = [item.cell for item in alike]
    given = [dict(cell.parameters) for cell in cells]
    for best in alike:
        own = dict(best.cell.parameters)
        if all(
            own[key] == value or (type(value) is int and type(own[key]) is int and own[key] > value)  # type: ignore[operator]
            for item in given
            for key, value in item.items()
        ):
            images = [
                {key: image.words for key, (_, image) in cell.images.items()}
                for cell in cells
                if not isinstance(cell, RomSource)
            ]
            if all(item == images[0] for item in images):
                return best
    raise EmissionError(
        f"the hardware of {instance.node} ({instance.module}) follows from its weights, so that "
        "others cannot be loaded; choose other layers with --reload"
    )


def _loaded(memory: Memory, words: dict[str, Memory], chosen: Sequence[Constant]) -> Memory:
    found = words.get(memory.file)
    is_constant = any(item.file == memory.file for item in chosen)
    if found is None or (found.words != memory.words and not is_constant):
        name = PurePath(memory.file).stem
        raise EmissionError(f"the table {name} of {memory.node} follows from weights")
    return found
