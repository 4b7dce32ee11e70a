"""How a beat lies in memory: each field little-endian in the word Verilator gives its port.

A port of up to 8, 16, 32 or 64 bits is one integer of that size; a wider one is an array of 32-bit
words. The fields of a beat follow one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mase_hw.emit.design import Stream

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

CHUNK_BITS = 1 << 26


def storage_bytes(width_bits: int) -> int:
    """Return the size of the C++ type that holds a port of `width_bits`."""
    for size in (1, 2, 4, 8):
        if width_bits <= 8 * size:
            return size
    return 4 * -(-width_bits // 32)


@dataclass(frozen=True)
class FieldLayout:
    """One payload signal: `lanes` values of `width_bits` at `offset` bytes of a beat."""

    name: str
    suffix: str
    lanes: int
    width_bits: int
    offset: int

    @property
    def bytes(self) -> int:
        """Bytes of the signal in a beat."""
        return storage_bytes(self.lanes * self.width_bits)

    def pack(self, patterns: Integers) -> Bytes:
        """Return bytes `[beats, bytes]` of bit patterns `[beats, lanes]`."""
        packed = np.zeros((len(patterns), self.bytes), np.uint8)
        step = max(1, CHUNK_BITS // (64 * self.lanes))
        for start in range(0, len(patterns), step):
            chunk = np.ascontiguousarray(patterns[start : start + step]).astype("<i8")
            octets = chunk.view(np.uint8).reshape(len(chunk), self.lanes, 8)
            bits = np.unpackbits(octets, axis=2, bitorder="little")[:, :, : self.width_bits]
            flat = np.packbits(bits.reshape(len(chunk), -1), axis=1, bitorder="little")
            packed[start : start + step, : flat.shape[1]] = flat
        return packed

    def unpack(self, packed: Bytes) -> Integers:
        """Return bit patterns `[beats, lanes]` of bytes `[beats, bytes]`."""
        patterns = np.zeros((len(packed), self.lanes), np.int64)
        step = max(1, CHUNK_BITS // (64 * self.lanes))
        for start in range(0, len(packed), step):
            chunk = np.ascontiguousarray(packed[start : start + step])
            bits = np.unpackbits(chunk, axis=1, bitorder="little")
            bits = bits[:, : self.lanes * self.width_bits]
            lanes = np.zeros((len(chunk), self.lanes, 64), np.uint8)
            lanes[:, :, : self.width_bits] = bits.reshape(len(chunk), self.lanes, -1)
            octets = np.packbits(lanes, axis=2, bitorder="little")
            patterns[start : start + step] = octets.view("<i8")[:, :, 0]
        return patterns


@dataclass(frozen=True)
class StreamLayout:
    """The layout of the beats of one stream."""

    stream: Stream

    @cached_property
    def fields(self) -> tuple[FieldLayout, ...]:
        """Each field with its offset."""
        fields: list[FieldLayout] = []
        for field in self.stream.fields:
            offset = fields[-1].offset + fields[-1].bytes if fields else 0
            name = self.stream.name + field.suffix
            fields.append(FieldLayout(name, field.suffix, field.lanes, field.width_bits, offset))
        return tuple(fields)

    @property
    def bytes(self) -> int:
        """Bytes of one beat."""
        return self.fields[-1].offset + self.fields[-1].bytes

    @cached_property
    def elements(self) -> Integers:
        """The index of the element in each lane, `[beats, lanes]` of one inference; -1 pads."""
        spec = self.stream.spec
        indices = torch.arange(spec.elements).reshape(spec.shape)
        return spec.to_beats(indices, fill=-1).numpy()

    def pack(self, codes: Tensor, garbage: np.random.Generator | None = None) -> Bytes:
        """Return beats as bytes of codes `[inferences, *shape]`.

        Args:
            codes: int64 codes.
            garbage: fills padding lanes with random bits; without it they hold zero.
        """
        spec = self.stream.spec
        patterns = spec.quantized.to_fields(spec.to_beats(codes), spec.parallelism[0])
        columns = []
        for field in self.fields:
            bits = patterns[field.suffix].numpy()
            if garbage is not None:
                bits = self._fill_padding(bits, field.width_bits, garbage)
            columns.append(field.pack(bits))
        return np.concatenate(columns, axis=1)

    def _fill_padding(
        self, bits: Integers, width_bits: int, garbage: np.random.Generator
    ) -> Integers:
        padding = self._padding(bits.shape[1])
        if not padding.any():
            return bits
        filled = bits.reshape(-1, *padding.shape).copy()
        shape = (len(filled), int(padding.sum()))
        filled[:, padding] = garbage.integers(0, 1 << width_bits, shape, dtype=np.int64)
        return filled.reshape(bits.shape)

    def _padding(self, lanes: int) -> Bools:
        """Return which lanes of a field hold padding: those all of whose elements do."""
        empty = (self.elements < 0).reshape(len(self.elements), lanes, -1)
        padding: Bools = np.all(empty, axis=2)
        return padding

    def mask(self) -> Bytes:
        """Return the bits of one inference that count, as bytes: padding lanes are zero."""
        spec, columns = self.stream.spec, []
        for field in self.fields:
            ones = np.full((spec.beats, field.lanes), (1 << field.width_bits) - 1, np.int64)
            ones[self._padding(field.lanes)] = 0
            columns.append(field.pack(ones))
        return np.concatenate(columns, axis=1)

    def bits(self, packed: Bytes) -> Bytes:
        """Return the bits of beats, `[beats, bits]`, without what lies between the signals."""
        columns = []
        for field in self.fields:
            octets = packed[:, field.offset : field.offset + field.bytes]
            bits = np.unpackbits(octets, axis=1, bitorder="little")
            columns.append(bits[:, : field.lanes * field.width_bits])
        return np.concatenate(columns, axis=1)

    def unpack(self, packed: Bytes) -> Tensor:
        """Return codes `[beats, lanes]` of beats as bytes `[beats, bytes]`."""
        patterns = {
            field.suffix: torch.from_numpy(
                field.unpack(packed[:, field.offset : field.offset + field.bytes])
            )
            for field in self.fields
        }
        return self.stream.spec.quantized.from_fields(patterns)
