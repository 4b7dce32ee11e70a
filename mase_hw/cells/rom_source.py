"""A memory that streams its words, period after period, for ever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mase_hw.cells._base import Cell, Image, Octets, Port, Value
from mase_hw.cells._components import Components, Gates, Pointer, Register, Table
from mase_hw.cells._motion import Motion, Steps
from mase_hw.formats import Format
from mase_hw.geometry.tensor import TensorSpec

# A look-up table holds some sixteen bits of a word that follows no rule, one a bit at least; what
# takes more than so many for each 18-kbit block that it would take lies in blocks.
WORDS_A_TABLE, BLOCK_TABLES = 16, 64
BLOCK_SHAPES = ((9, 2048), (18, 1024), (36, 512))
# Elements that are packed at a time.
PACKED_ELEMENTS = 1 << 20
# The first cycle after reset in which a word is on offer.
FIRST_CYCLE = 2


@dataclass(frozen=True)
class RomSource(Cell):
    """Constant operands on chip.

    Attributes:
        port: the stream; it may be taken any number of times in an inference.
        image: the words, one a beat.
        depth: number of words.
        hold: beats for which each word stays.
        spec: shape, format and tiles of the tensor, None for words of another kind.
        style: of what the memory is made: `logic` or `distributed` of look-up tables, `block` of
            block memory, `auto` of what is smaller.
    """

    port: Port
    image: Image
    depth: int
    hold: int = 1
    spec: TensorSpec | None = None
    style: str = "auto"

    @classmethod
    def of(cls, spec: TensorSpec, beats: Callable[[], Tensor], *, hold: int = 1) -> RomSource:
        """Return the memory of a tensor.

        Args:
            spec: format and parallelism of a beat; as many words as it has beats.
            beats: returns int64 codes `[words, lanes]`, in the order of use.
            hold: beats for which each word stays.
        """
        return cls.of_beats(spec, spec.beats, beats, hold=hold)

    @classmethod
    def of_beats(
        cls, spec: TensorSpec, depth: int, beats: Callable[[], Tensor], *, hold: int = 1
    ) -> RomSource:
        """Return a memory of `depth` words, each a beat of `spec`."""
        rows = spec.parallelism[0]
        port = Port(spec.quantized.stream_fields(spec.lanes, rows), depth, packed=True)
        words = Image.of_octets(port.width_bits, lambda: pack_words(spec.quantized, beats(), rows))
        return cls(port, words, depth, hold, spec)

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {}

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out": self.port}

    @property
    def parameters(self) -> Mapping[str, Value]:
        """Bits of a word, words, beats a word, and whether they must lie in one kind of memory."""
        return {
            "WIDTH": self.image.width_bits,
            "DEPTH": self.depth,
            "HOLD": self.hold,
            "BLOCK": self._is_block,
            "LOGIC": self.style in ("logic", "distributed"),
        }

    @property
    def words(self) -> int:
        """Words of the memory."""
        return self.depth

    @property
    def _is_block(self) -> bool:
        """Whether the words lie in block memory; a single word lies nowhere."""
        width = self.image.width_bits
        tables = width * max(1, self.words / WORDS_A_TABLE)
        blocks = min(-(-width // bits) * -(-self.words // words) for bits, words in BLOCK_SHAPES)
        cheaper = tables > BLOCK_TABLES * blocks
        return self.style == "block" or (self.style == "auto" and cheaper)

    @property
    def _registers(self) -> int:
        """Registers that a word passes: two, which block memory has of its own."""
        return 1 + self._is_block

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        return {"INIT_FILE": ("", self.image)}

    @property
    def components(self) -> Components:
        """The words, a register behind them, and what counts them."""
        width = self.image.width_bits
        address = self.depth if self.depth > 1 else 1
        counters = Components.of(Pointer((address - 1).bit_length()), Gates(2))
        if self.depth == 1:
            return Components.of(Gates(1), Register(2))
        if self.hold > 1:
            counters += Components.of(Pointer((self.hold - 1).bit_length()), Gates(1))
        logic = self.style in ("logic", "distributed")
        words = Table(
            self.depth,
            width,
            self.image,
            self._is_block,
            stages=self._registers,
            logic=logic,
            irregular=True,
        )
        return counters + Components.of(words, Register(2))

    @property
    def motion(self) -> Motion:
        """A word is always on offer."""
        return Steps(0)

    @property
    def busy_cycles(self) -> int:
        """None of its own: whoever takes the words decides."""
        return 0


def pack_words(number_format: Format, beats: Tensor, rows: int = 1) -> Octets:
    """Return words `[beats, octets]`, lane 0 and the first field in the low bits.

    Args:
        number_format: format of the codes.
        beats: int64 codes `[beats, lanes]`.
        rows: rows of the tile that a beat holds.
    """
    step = max(1, PACKED_ELEMENTS // max(1, beats.shape[1]))
    return np.concatenate([_packed(number_format, part, rows) for part in torch.split(beats, step)])


def _packed(number_format: Format, beats: Tensor, rows: int) -> Octets:
    payloads = number_format.to_fields(beats, rows)
    columns = []
    fields = number_format.stream_fields(beats.shape[1], rows)
    whole = all(item.width_bits % 8 == 0 for item in fields)
    for item in fields:
        values = payloads[item.suffix].numpy().astype("<i8")
        octets = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, 8)
        octets = octets[:, :, : -(-item.width_bits // 8)]
        if whole:
            columns.append(octets.reshape(len(beats), -1))
            continue
        bits = np.unpackbits(octets, axis=2, bitorder="little")[:, :, : item.width_bits]
        columns.append(bits.reshape(len(beats), -1))
    found = np.concatenate(columns, axis=1)
    return found if whole else np.packbits(found, axis=1, bitorder="little")
