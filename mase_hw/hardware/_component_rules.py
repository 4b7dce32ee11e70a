"""What a component takes of an FPGA by the rules of Yosys' `synth_xilinx -family xcup`.

Flip-flops, carry chains, DSP blocks and block memories follow from the component. Its look-up
tables are a sum of a few terms for each kind, whose coefficients are in `coefficients.json`.

- A chain of three or more registers without reset is a shift register in look-up tables, one for
  each 32 stages of a bit.
- A sum of more than two bits takes a `CARRY4` for every four.
- A product of nine or more bits takes DSP blocks of 27 x 18 bits. Of wider operands, slices of 17
  bits are multiplied one by one, and the products added in look-up tables (`mul2dsp.v`).
- A memory that is written lies in look-up tables as 32 x 14 or 64 x 7 bits, or in block memory
  where that costs less and its words are read through a register.
- Constant words without a request for block memory lie there where the count of 18-kbit blocks
  times 129 is less than their bits over 64: the costs of the memory mapper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

from mase_hw import cells as kinds
from mase_hw.cells import Component

DSP_BITS = (27, 18)
DSP_LEAST_PRODUCT_BITS, SLICE_BITS = 9, 17
BLOCK_SHAPES = ((1, 16384), (2, 8192), (4, 4096), (9, 2048), (18, 1024), (36, 512))
BLOCK_COST, LOGIC_COST_PER_BIT, DISTRIBUTED_COST = 129, 1 / 64, 16
SHIFT_REGISTER_STAGES, SHIFT_REGISTER_BITS = 3, 32
CARRY_BITS, CARRY_LEAST_BITS = 4, 3
# A distributed memory of eight tables: words, and bits of one.
DISTRIBUTED_SHAPES = ((32, 14), (64, 7))
DISTRIBUTED_LUT = 8
LUT_INPUTS = 6
TABLE_PLACES = 1 << LUT_INPUTS
# Tables of constants have a coefficient for each number of words from 16 to 256, and one for each
# 64 words of more.
SMALL_ADDRESS, LARGE_ADDRESS = 4, 8
# Of words that follow no rule, from 64 of them on, a table holds so many.
LEAST_IRREGULAR_ADDRESS, WORDS_A_TABLE = 6, 16
# Terms without a coefficient: what is known exactly.
EXACT = "exact"


@dataclass(frozen=True)
class Taken:
    """What a component takes.

    Attributes:
        ff: flip-flops.
        carry: `CARRY4`.
        dsp: DSP blocks.
        bram: blocks of 36 kbit.
        memory_bits: bits of memories.
        terms: amounts by coefficient, whose products add up to look-up tables.
    """

    ff: int = 0
    carry: int = 0
    dsp: int = 0
    bram: float = 0.0
    memory_bits: int = 0
    terms: Mapping[str, float] = field(default_factory=dict)


def carries(bits: int) -> int:
    """Return the carry blocks of a sum."""
    return -(-bits // CARRY_BITS) if bits >= CARRY_LEAST_BITS else 0


def block_halves(words: int, bits: int, ports: int = 1) -> int:
    """Return the 18-kbit blocks of a memory; with two ports that read, words are narrower."""
    shapes = BLOCK_SHAPES if ports == 1 else BLOCK_SHAPES[:-1]
    return min(math.ceil(bits / width) * math.ceil(words / depth) for width, depth in shapes)


def ways_cost(ways: int) -> float:
    """Return the look-up tables of one bit out of some words: four to one each."""
    return float(math.ceil((ways - 1) / 3))


def _register(component: kinds.Register) -> Taken:
    if component.stages < SHIFT_REGISTER_STAGES:
        return Taken(ff=component.bits * component.stages)
    return Taken(terms={EXACT: component.bits * -(-component.stages // SHIFT_REGISTER_BITS)})


def _gates(component: kinds.Gates) -> Taken:
    return Taken(terms={"gate": component.outputs})


def _counter(component: kinds.Counter) -> Taken:
    terms = {
        "counter": 1.0,
        "counter bit": component.bits,
        "counter carry": carries(component.bits),
    }
    if component.wraps:
        # An inverted bit, and what finds the last number but one; a sum of two bits has no chain.
        tables = math.ceil(component.bits / LUT_INPUTS) * (component.bits > 1)
        terms = {EXACT: 1.0 + tables + (component.bits == CARRY_LEAST_BITS - 1)}
        return Taken(
            ff=component.bits + (component.bits > 1), carry=carries(component.bits), terms=terms
        )
    return Taken(ff=component.bits + 1, carry=carries(component.bits), terms=terms)


def _level(component: kinds.Level) -> Taken:
    terms = {"level": 1.0, "level bit": component.bits}
    return Taken(ff=component.bits + 1, carry=carries(component.bits), terms=terms)


def _pointer(component: kinds.Pointer) -> Taken:
    terms = {"pointer": 1.0, "pointer bit": component.bits}
    return Taken(ff=component.bits, carry=carries(component.bits), terms=terms)


def _adder(component: kinds.Adder) -> Taken:
    plain, gated = (
        ("full sum bit", "sum bit kept") if component.full else ("sum bit", "gated sum bit")
    )
    terms = {plain: component.bits, gated: component.bits * component.gated}
    return Taken(carry=carries(component.bits), terms=terms)


def _offset(component: kinds.Offset) -> Taken:
    return Taken(carry=carries(component.bits), terms={"inverted bit": component.ones})


def _negation(component: kinds.Negation) -> Taken:
    terms = {"inverted bit": component.bits, "choice bit": component.bits * component.chosen}
    return Taken(carry=carries(component.bits), terms=terms)


def _compare(component: kinds.Compare) -> Taken:
    word = "constant comparison" if component.constant else "comparison"
    return Taken(carry=0, terms={f"{word}": 1.0, f"{word} bit": component.bits})


def _mux(component: kinds.Mux) -> Taken:
    if component.ways <= 2:
        return Taken(terms={"choice bit": component.bits * (component.ways - 1)})
    return Taken(terms={"multiplexer": ways_cost(component.ways) * component.bits})


def _fold(component: kinds.Fold) -> Taken:
    return Taken(terms={"fold": math.ceil(max(component.bits - 1, 0) / (LUT_INPUTS - 1))})


def _rounding(component: kinds.Rounding) -> Taken:
    tables = math.ceil((component.lost + 1) / LUT_INPUTS)
    return Taken(carry=carries(component.bits), terms={"rounding": tables})


def _saturation(component: kinds.Saturation) -> Taken:
    tables = math.ceil(component.above / (LUT_INPUTS - 1))
    return Taken(terms={"saturated bit": component.bits, "saturation": tables})


def _zeros(component: kinds.Zeros) -> Taken:
    return Taken(terms={"zeros": 1.0, "zeros bit": component.bits * (component.ways > 3)})


def _shifter(component: kinds.Shifter) -> Taken:
    full, some = 0.0, 0.0
    for bit in range(component.bits):
        if component.left:
            places = [bit - way * component.step for way in range(component.ways)]
            sources = sum(0 <= place < component.left for place in places)
            sources += any(place >= component.left for place in places)
        elif component.filled:
            top = max(component.bits, component.inner) - 1
            sources = min(component.ways, (top - bit) // component.step + 1)
            hidden = max(0, -(-(component.empty - bit) // component.step))
            sources = max(sources - hidden, 0) + (sources < component.ways)
        else:
            sources = component.ways
        if sources > 4:
            some += ways_cost(sources)
        elif sources:
            full += 1
    return Taken(terms={"shifted bit": full, "wide shift": some})


def _sticky(component: kinds.Sticky) -> Taken:
    return Taken(terms={"sticky": 1.0, "sticky bit": component.bits})


def _product(component: kinds.Product) -> Taken:
    wide, narrow = max(component.left, component.right), min(component.left, component.right)
    if component.left + component.right >= DSP_LEAST_PRODUCT_BITS and narrow > 1:
        slices, others = _slices(wide, DSP_BITS[0]), _slices(narrow, DSP_BITS[1])
        ends = [
            component + narrow - SLICE_BITS * step
            for component in slices
            for step in range(1, len(others))
        ]
        ends += [wide + narrow - SLICE_BITS * step for step in range(1, len(slices))]
        return Taken(
            carry=sum(map(carries, ends)),
            dsp=len(slices) * len(others),
            terms={"full sum bit": sum(ends)},
        )
    return Taken(terms={"product bit": component.left * component.right})


def _slices(bits: int, most: int) -> list[int]:
    """Return the widths into which an operand is cut that has more bits than a block takes."""
    whole = -(-(bits - most) // SLICE_BITS) if bits > most else 0
    return [SLICE_BITS + 1] * whole + [bits - SLICE_BITS * whole]


def _table(component: kinds.Table) -> Taken:
    varying = component.bits if component.image is None else _varying(tuple(component.image.words))
    bits = component.words * varying
    halves = block_halves(component.words, varying, component.readers)
    pairs = -(-component.readers // 2)
    cheaper = halves * pairs * BLOCK_COST < bits * LOGIC_COST_PER_BIT
    if component.block or (cheaper and not component.logic):
        held = varying * (component.stages - 1) * component.readers
        return Taken(
            ff=held, bram=halves * pairs / 2, memory_bits=component.words * component.bits * pairs
        )
    sizes, varying = constant_tables(component)
    held = varying * component.stages * component.readers
    terms: dict[str, float] = {}
    for inputs, number in sizes.items():
        if component.irregular and inputs >= LEAST_IRREGULAR_ADDRESS:
            name, number = EXACT, number * (1 << inputs) / WORDS_A_TABLE
        elif inputs > LARGE_ADDRESS:
            name, number = "table of more", number * math.ceil(component.words / TABLE_PLACES)
        else:
            name = f"table of {1 << max(inputs, SMALL_ADDRESS)}"
        terms[name] = terms.get(name, 0.0) + number * component.readers
    if component.stages >= SHIFT_REGISTER_STAGES:
        terms[EXACT] = varying * component.readers
        held = 0
    return Taken(ff=held, memory_bits=component.words * component.bits, terms=terms)


@lru_cache(1024)
def _varying(words: tuple[int, ...]) -> int:
    some, every = 0, -1
    for word in words:
        some |= word
        every &= word
    return (some & ~every).bit_count()


def constant_tables(component: kinds.Table) -> tuple[Mapping[int, float], int]:
    """Return the functions of the address that constant words are, and the bits that vary.

    A bit of a word is a function of the address, counted by the bits on which it depends. What is
    constant, a bit of the address, equal to another or its opposite takes no logic; equal bits
    share a register.
    """
    if component.image is None:
        address = max(1, (component.words - 1).bit_length())
        return {address: component.bits * (component.words > 2)}, component.bits * (
            component.words > 1
        )
    return _functions(tuple(component.image.words), component.words, component.bits)


@lru_cache(1024)
def _functions(words: tuple[int, ...], depth: int, bits: int) -> tuple[dict[int, float], int]:
    mask = (1 << depth) - 1
    plain = {0, mask}
    address = max(1, (depth - 1).bit_length())
    for bit in range(address):
        column = sum(1 << place for place in range(depth) if place >> bit & 1)
        plain |= {column, mask & ~column}
    functions: set[int] = set()
    varying: set[int] = set()
    for bit in range(bits):
        column = sum((word >> bit & 1) << place for place, word in enumerate(words[:depth]))
        varying.add(column)
        if column not in plain and mask & ~column not in functions:
            functions.add(column)
    sizes: dict[int, float] = {}
    for column in functions:
        inputs = sum(_depends(column, bit, depth) for bit in range(address))
        sizes[inputs] = sizes.get(inputs, 0.0) + _share(column, depth)
    return sizes, len(varying - {0, mask})


def _share(column: int, depth: int) -> float:
    """Return how many of the parts of 64 places of a function are neither constant nor alike."""
    parts = -(-depth // TABLE_PLACES)
    if parts <= 1:
        return 1.0
    full = (1 << TABLE_PLACES) - 1
    found = {column >> part * TABLE_PLACES & full for part in range(parts)}
    return max(len(found - {0, full}), 1) / parts


def _depends(column: int, bit: int, depth: int) -> bool:
    """True if a function of places below `depth` depends on a bit of the place."""
    step = 1 << bit
    low = sum(1 << place for place in range(depth - step) if not place & step)
    return bool((column ^ column >> step) & low)


def _memory(component: kinds.Memory) -> Taken:
    bits = component.words * component.bits
    if component.small and bits <= DISTRIBUTED_COST:
        terms = {
            "choice bit": float((component.words - 1) * component.bits),
            "gate": float(component.words),
        }
        return Taken(ff=bits, memory_bits=bits, terms=terms)
    words, width = next(
        (shape for shape in DISTRIBUTED_SHAPES if component.words <= shape[0]),
        DISTRIBUTED_SHAPES[-1],
    )
    banks = math.ceil(component.words / words)
    ports = max(1, component.readers)
    # Two tables more hold a port more: as many ports as there are bits less.
    units = banks * math.ceil(component.bits / width)
    if ports > 1:
        shapes = ((32, {3: 4, 7: 2}), (64, {3: 2, 7: 1}))
        reach = next((s for s in shapes if component.words <= s[0]), shapes[-1])
        units = min(
            math.ceil(ports / count) * math.ceil(component.bits / lanes)
            for count, lanes in reach[1].items()
        ) * math.ceil(component.words / reach[0])
    cost = DISTRIBUTED_COST * banks * component.bits / width * ports
    halves = block_halves(component.words, component.bits)
    if component.stages and halves * BLOCK_COST * ports < cost:
        held = component.bits * (component.stages - 1) * ports
        return Taken(ff=held, bram=halves * ports / 2, memory_bits=bits)
    terms = {EXACT: float(units * DISTRIBUTED_LUT)}
    if banks > 1:
        terms["bank bit"] = ways_cost(banks) * component.bits * ports
        terms["bank"] = banks
    behind = _register(kinds.Register(component.bits * ports, component.stages))
    terms[EXACT] += behind.terms.get(EXACT, 0.0)
    return Taken(ff=behind.ff, memory_bits=bits, terms=terms)


RULES: Mapping[type[Component], Callable[[Any], Taken]] = {
    kinds.Register: _register,
    kinds.Gates: _gates,
    kinds.Counter: _counter,
    kinds.Level: _level,
    kinds.Pointer: _pointer,
    kinds.Adder: _adder,
    kinds.Offset: _offset,
    kinds.Negation: _negation,
    kinds.Compare: _compare,
    kinds.Mux: _mux,
    kinds.Fold: _fold,
    kinds.Rounding: _rounding,
    kinds.Saturation: _saturation,
    kinds.Zeros: _zeros,
    kinds.Shifter: _shifter,
    kinds.Sticky: _sticky,
    kinds.Product: _product,
    kinds.Table: _table,
    kinds.Memory: _memory,
}


def taken(component: Component, *, contents: bool = True) -> Taken:
    """Resources of a component; without contents, tables whose words may be anything."""
    if isinstance(component, kinds.Table):
        # Tables are all different.
        return _table(component if contents else replace(component, image=None))
    return _known(component)


@cache
def _known(component: Component) -> Taken:
    return RULES[type(component)](component)
