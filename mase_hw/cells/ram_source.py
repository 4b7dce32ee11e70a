"""A memory that streams its words, and whose words can be loaded while the design is in reset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from mase_hw.cells._base import Cell, Value
from mase_hw.cells._components import Components, Counter, Gates, Register
from mase_hw.cells.rom_source import RomSource


@dataclass(frozen=True)
class RamSource(RomSource):
    """Constant operands on chip that can be loaded.

    Attributes:
        number: its place in the row of all that are loaded.
    """

    number: int = 0

    @classmethod
    def at(cls, number: int, source: RomSource) -> RamSource:
        """Return the same memory, at a place of the row."""
        given = {item.name: getattr(source, item.name) for item in fields(RomSource)}
        return cls(**given, number=number)

    @property
    def parameters(self) -> Mapping[str, Value]:
        """Bits of a word, words, beats a word; the top says whether anything can be loaded."""
        given = super().parameters
        return {**{name: given[name] for name in ("WIDTH", "DEPTH", "HOLD")}, "RELOAD": "RELOAD"}

    @property
    def signals(self) -> Mapping[str, str]:
        return {
            "load_clear": "load_clear",
            "load_byte": "load_byte",
            "load_valid": f"load_row[{self.number}]",
            "load_pass": f"load_row[{self.number + 1}]",
        }

    @property
    def _registers(self) -> int:
        return 2

    @property
    def components(self) -> Components:
        """The memory, and what counts the bytes of a load."""
        width = 8 * -(-self.image.width_bits // 8)
        places = Counter(self.depth.bit_length())
        return super().components + Components.of(Register(width + 1), places, Gates(3))

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Return none: what loads it belongs to the bus."""
        return ()
