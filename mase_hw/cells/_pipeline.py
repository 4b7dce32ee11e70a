"""What the handshakes of pipelines are made of: `rtl/streams` and `mase_accumulate_pipeline`."""

from __future__ import annotations

from mase_hw.cells._components import (
    NOTHING,
    Adder,
    Compare,
    Components,
    Counter,
    Gates,
    Level,
    Memory,
    Mux,
    Pointer,
    Register,
)
from mase_hw.geometry.growth import Growth


def index_bits(count: int) -> int:
    """Return the bits of an index below `count`, at least one."""
    return max(1, (count - 1).bit_length())


def counter(count: int) -> Components:
    """Return the components of `mase_counter`."""
    bits = index_bits(count)
    return Components.of(Counter(bits, wraps=count == 1 << bits)) if count > 1 else NOTHING


def growing_counter(count: int, growth: Growth | None) -> Components:
    """Return the components of `mase_growing_counter`, whose longest run has `count` beats."""
    if growth is None:
        return counter(count)
    bits = index_bits(count)
    counted = Components.of(Adder(bits), Register(bits + 1), Compare(bits), Gates(3))
    grown = Components.of(Adder(bits), Mux(2, bits), Register(bits))
    return counted + grown + counter(growth.every) + counter(growth.runs)


def growing_walk(stride: int, segments: int, growth: Growth) -> Components:
    """Return the components of `mase_growing_walk`.

    Args:
        stride: words of a segment.
        segments: how many there are.
        growth: words that are taken of them, one run for each segment of each pass.
    """
    bits = index_bits(stride * segments)
    place = Components.of(Adder(bits), Adder(bits), Mux(3, bits), Register(bits), Gates(1))
    return growing_counter(stride, growth) + counter(segments) + place


def layer_walk(depth: int, layers: int, walks: int) -> Components:
    """Return the components of `mase_layer_walk`."""
    bits = index_bits(depth * layers)
    address = Components.of(Adder(bits), (Register(bits), 2), Mux(3, bits), Gates(3, levels=2))
    return counter(depth) + counter(walks) + address


def level(most: int) -> Components:
    """Return the components of `mase_level`."""
    return Components.of(Level(most.bit_length()))


def credits(depth: int) -> Components:
    """Return the components of `mase_credits`."""
    return level(depth)


def queue_memory(width: int, depth: int, *, passed: bool = False, registers: int = 1) -> Components:
    """Return the memory of a queue, what counts its words, and the register behind it.

    Args:
        width: bits of a word.
        depth: words, those in registers too.
        passed: whether a word may pass the memory.
        registers: behind the memory.
    """
    bits = index_bits(depth - registers)
    if registers > 1:
        words = Memory(1 << bits, width, stages=registers)
        return Components.of(words, (Pointer(bits), 2), Register(2 + registers - 1))
    # The register of a memory that nothing passes is a part of its port that reads.
    return Components.of(
        Memory(1 << bits, width, small=passed), (Pointer(bits), 2), Register(width + 2)
    )


def result_queue(width: int, depth: int, registers: int = 1) -> Components:
    """Return the components of `mase_result_queue`."""
    words = queue_memory(width, depth, registers=registers)
    return words + level(1 << index_bits(depth - registers)) + Components.of(Gates(3))


def stream_pipeline(width: int, stages: int) -> Components:
    """Return the components of `mase_stream_pipeline`."""
    depth = stages + 3
    flags = Components.of((Register(1), stages), Gates(1))
    return flags + credits(depth) + result_queue(width, depth)


def join(count: int) -> Components:
    """Return the components of `mase_stream_join`."""
    return Components.of(Gates(count))


def round_pipeline(
    terms: int,
    part: int,
    result: int,
    width: int,
    inner: int = 1,
    copies: int = 1,
    growth: Growth | None = None,
) -> Components:
    """Return the components of `mase_round_pipeline`.

    Args:
        terms: rounds that become one.
        part: cycles until a beat is reduced.
        result: cycles from there to a result.
        width: bits of a result.
        inner: beats of a round.
        copies: registers that say whether a round is the first.
        growth: of the rounds, where results grow.
    """
    cycles, beats = part + result + 3, 1 if growth else terms * inner
    depth = cycles // beats * inner + min(cycles % beats, inner) + 1
    # Whether a beat may enter follows from room, round and operands.
    flags = Components.of((Register(1), part + result), Gates(3, levels=4))
    if terms > 1:
        flags += Components.of((Register(1), 1 + part), Gates(2))
        first = Register(1, part) if copies == 1 else Register(1, part - 1)
        flags += Components.of(first, (Register(1), copies * (copies > 1)))
    counters = counter(inner) + growing_counter(terms, growth)
    return flags + counters + credits(depth) + result_queue(width, depth)


def accumulate_pipeline(
    terms: int,
    part: int,
    result: int,
    bias: int,
    width: int,
    *,
    steady: bool = False,
    copies: int = 1,
    growth: Growth | None = None,
) -> Components:
    """Return the components of `mase_accumulate_pipeline`.

    Args:
        terms: beats of a sum.
        part: cycles until a beat is summed up.
        result: cycles from there to a result.
        bias: bits of a bias; 0 for none.
        width: bits of a result.
        steady: whether nothing waits for weights and biases.
        copies: registers that say whether a sum begins.
        growth: of the sums, where they grow.
    """
    rounds = round_pipeline(terms, part, result, width, copies=copies, growth=growth)
    if steady:
        return rounds + Components.of(Gates(1 + (bias > 0)), Register(1))
    rounds += Components.of(Gates(2))
    if not bias:
        return rounds
    rounds += Components.of(Gates(3), Register(int(terms > 1)))
    biases = -(-part // terms)
    if biases == 1:
        return rounds + Components.of(Register(bias))
    words = Components.of(Memory(biases, bias, small=True))
    return rounds + words + Components.of((Pointer(index_bits(biases)), 2), Register(1))


def round_store(width: int, inner: int) -> Components:
    """Return the parts of `mase_round_store`, which keeps `inner` parts of `width` bits."""
    if inner <= 2:
        return Components.of((Register(width), inner))
    kept = Components.of(Memory(inner, width, stages=1), (Register(width), 2))
    return kept + counter(inner) * 2


def stream_register(width: int) -> Components:
    """Return the components of `mase_stream_register`."""
    return stream_pipeline(width, 0)


def chosen(ways: int, bits: int) -> Components:
    """Return one of some words of `bits`."""
    return Components.of(Mux(ways, bits)) if ways > 1 else NOTHING
