"""What the handshakes of pipelines are made of: `rtl/streams` and `mase_accumulate_pipeline`."""

from __future__ import annotations

from mase_hw.cells._parts import (
    NOTHING,
    Adder,
    Compare,
    Gates,
    Level,
    Memory,
    Mux,
    Parts,
    Pointer,
    Register,
    Turn,
)
from mase_hw.geometry.growth import Growth


def index_bits(count: int) -> int:
    """Return the bits of an index below `count`, at least one."""
    return max(1, (count - 1).bit_length())


def turn(count: int) -> Parts:
    """Return the parts of `mase_turn`."""
    bits = index_bits(count)
    return Parts.of(Turn(bits, wraps=count == 1 << bits)) if count > 1 else NOTHING


def growing_turn(count: int, growth: Growth | None) -> Parts:
    """Return the parts of `mase_growing_turn`, whose longest turn has `count` beats."""
    if growth is None:
        return turn(count)
    bits = index_bits(count)
    counted = Parts.of(Adder(bits), Register(bits + 1), Compare(bits), Gates(3))
    grown = Parts.of(Adder(bits), Mux(2, bits), Register(bits))
    return counted + grown + turn(growth.every) + turn(growth.turns)


def growing_walk(stride: int, segments: int, growth: Growth) -> Parts:
    """Return the parts of `mase_growing_walk`.

    Args:
        stride: words of a segment.
        segments: how many there are.
        growth: words that are taken of them, one turn for each segment of each pass.
    """
    bits = index_bits(stride * segments)
    place = Parts.of(Adder(bits), Adder(bits), Mux(3, bits), Register(bits), Gates(1))
    return growing_turn(stride, growth) + turn(segments) + place


def layer_walk(depth: int, layers: int, walks: int) -> Parts:
    """Return the parts of `mase_layer_walk`."""
    bits = index_bits(depth * layers)
    address = Parts.of(Adder(bits), (Register(bits), 2), Mux(3, bits), Gates(3, levels=2))
    return turn(depth) + turn(walks) + address


def level(most: int) -> Parts:
    """Return the parts of `mase_level`."""
    return Parts.of(Level(most.bit_length()))


def credits(depth: int) -> Parts:
    """Return the parts of `mase_credits`."""
    return level(depth)


def queue_memory(width: int, depth: int, *, passed: bool = False, registers: int = 1) -> Parts:
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
        return Parts.of(words, (Pointer(bits), 2), Register(2 + registers - 1))
    # The register of a memory that nothing passes is a part of its port that reads.
    return Parts.of(Memory(1 << bits, width, small=passed), (Pointer(bits), 2), Register(width + 2))


def result_queue(width: int, depth: int, registers: int = 1) -> Parts:
    """Return the parts of `mase_result_queue`."""
    words = queue_memory(width, depth, registers=registers)
    return words + level(1 << index_bits(depth - registers)) + Parts.of(Gates(3))


def stream_pipeline(width: int, stages: int) -> Parts:
    """Return the parts of `mase_stream_pipeline`."""
    depth = stages + 3
    flags = Parts.of((Register(1), stages), Gates(1))
    return flags + credits(depth) + result_queue(width, depth)


def join(count: int) -> Parts:
    """Return the parts of `mase_stream_join`."""
    return Parts.of(Gates(count))


def round_pipeline(
    terms: int,
    part: int,
    result: int,
    width: int,
    inner: int = 1,
    copies: int = 1,
    growth: Growth | None = None,
) -> Parts:
    """Return the parts of `mase_round_pipeline`.

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
    flags = Parts.of((Register(1), part + result), Gates(3, levels=4))
    if terms > 1:
        flags += Parts.of((Register(1), 1 + part), Gates(2))
        first = Register(1, part) if copies == 1 else Register(1, part - 1)
        flags += Parts.of(first, (Register(1), copies * (copies > 1)))
    counters = turn(inner) + growing_turn(terms, growth)
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
) -> Parts:
    """Return the parts of `mase_accumulate_pipeline`.

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
        return rounds + Parts.of(Gates(1 + (bias > 0)), Register(1))
    rounds += Parts.of(Gates(2))
    if not bias:
        return rounds
    rounds += Parts.of(Gates(3), Register(int(terms > 1)))
    biases = -(-part // terms)
    if biases == 1:
        return rounds + Parts.of(Register(bias))
    words = Parts.of(Memory(biases, bias, small=True))
    return rounds + words + Parts.of((Pointer(index_bits(biases)), 2), Register(1))


def round_store(width: int, inner: int) -> Parts:
    """Return the parts of `mase_round_store`, which keeps `inner` parts of `width` bits."""
    if inner <= 2:
        return Parts.of((Register(width), inner))
    kept = Parts.of(Memory(inner, width, stages=1), (Register(width), 2))
    return kept + turn(inner) * 2


def stream_register(width: int) -> Parts:
    """Return the parts of `mase_stream_register`."""
    return stream_pipeline(width, 0)


def chosen(ways: int, bits: int) -> Parts:
    """Return one of some words of `bits`."""
    return Parts.of(Mux(ways, bits)) if ways > 1 else NOTHING
