"""How codes lie in the packets of a bus, as `design.json` says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]
Reals = npt.NDArray[np.float64]


class DriverError(Exception):
    """What a device or an array lacks: the message says what was found and what is allowed."""


class TimedOutError(DriverError):
    """A device did not answer in time."""


class WrongDesignError(DriverError):
    """The device holds another design than this driver was made for."""


class Port:
    """One input or output of the design.

    Args:
        stream: its entry in `inputs` or `outputs` of `design.json`.
        packet: its entry in the same list of `bus`.
    """

    def __init__(self, stream: Mapping[str, Any], packet: Mapping[str, Any]) -> None:
        self.name: str = stream["name"]
        self.shape: tuple[int, ...] = tuple(stream["shape"])
        self.bytes: int = packet["bytes"]
        self.bus_bytes: int = packet["bus_bytes"]
        self.words: int = packet["words"]
        self.minimum: int = packet["codes"]["minimum"]
        self.maximum: int = packet["codes"]["maximum"]
        self.step: float | None = packet["codes"]["step"]
        self._beat_bytes: int = packet["beat_bytes"]
        self._stream = stream

    @cached_property
    def places(self) -> Codes:
        """The element in each lane, `[beats, lanes]` of one inference; -1 for padding."""
        order, (rows, columns) = self._stream["order"], self._stream["parallelism"]
        index: Codes = np.arange(math.prod(self.shape), dtype=np.int64)
        if order is not None:
            index = index.reshape(order["view"]).transpose(order["axes"])
        height, width = [1, 1, *map(int, self._stream["stream_shape"])][-2:]
        index = index.reshape(-1, height, width)
        index = np.pad(
            index, ((0, 0), (0, -height % rows), (0, -width % columns)), constant_values=-1
        )
        tiles = index.reshape(len(index), -(-height // rows), rows, -(-width // columns), columns)
        return tiles.transpose(0, 1, 3, 2, 4).reshape(-1, rows * columns)

    def check(self, codes: npt.ArrayLike) -> Codes:
        """Return codes `[inferences, elements]`.

        Args:
            codes: integers of the shape of the port, or of several inferences: one after the other
                along the first dimension where that is 1, else along a dimension before it.

        Raises:
            DriverError: for another type or shape, or a code that the format does not have.
        """
        given = np.asarray(codes)
        if given.dtype.kind not in "iu":
            raise DriverError(
                f"{self.name} takes integer codes, not {given.dtype}; encode() makes codes of reals"
            )
        if given.shape != self.shape and given.shape[1:] != self.item_shape:
            raise DriverError(
                f"{self.name} has the shape {list(given.shape)}; allowed: {list(self.shape)}, or "
                f"{['N', *self.item_shape]} for N inferences".replace("'", "")
            )
        if given.size and (given.min() < self.minimum or given.max() > self.maximum):
            wrong = given.min() if given.min() < self.minimum else given.max()
            raise DriverError(
                f"{self.name} has the code {wrong}; its format has codes from {self.minimum} to "
                f"{self.maximum}"
            )
        return given.astype(np.int64).reshape(-1, math.prod(self.shape))

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The shape of one inference of several."""
        return self.shape[1:] if self.shape[:1] == (1,) else self.shape

    def pack(self, codes: npt.ArrayLike) -> Octets:
        """Return the packets of codes, `[inferences, bytes]`."""
        given = self.check(codes)
        beats = np.where(self.places < 0, 0, given[:, np.maximum(self.places, 0)])
        elements, *shared = self._stream["fields"]
        columns = [_bits(beats, elements["width_bits"])]
        for item in shared:
            group = beats.shape[2] // item["lanes"]
            scales = beats[:, :, ::group] >> elements["width_bits"]
            others = np.repeat(scales, group, axis=2) != beats >> elements["width_bits"]
            if (others & (self.places >= 0)).any():
                raise DriverError(
                    f"elements of one block of {self.name} have codes with different scales"
                )
            columns.append(_bits(scales, item["width_bits"]))
        bits = np.concatenate(columns, axis=2)
        spare = 8 * self._beat_bytes - bits.shape[2]
        packed = np.packbits(np.pad(bits, ((0, 0), (0, 0), (0, spare))), axis=2, bitorder="little")
        return packed.reshape(len(given), self.bytes)

    def words_of(self, packets: Octets) -> Octets:
        """Return packets with zeros up to a whole word of the bus."""
        return np.pad(packets, ((0, 0), (0, self.words * self.bus_bytes - self.bytes)))

    def unpack(self, packets: npt.NDArray[np.uint8]) -> Codes:
        """Return the codes of packets `[inferences, bytes]`, `[inferences, *shape of one]`."""
        beats = packets.reshape(len(packets), len(self.places), self._beat_bytes)
        bits = np.unpackbits(beats, axis=2, bitorder="little")
        elements, *shared = self._stream["fields"]
        width, start = elements["width_bits"], elements["lanes"] * elements["width_bits"]
        codes = _numbers(bits[:, :, :start], width)
        for item in shared:
            end = start + item["lanes"] * item["width_bits"]
            scales = _numbers(bits[:, :, start:end], item["width_bits"])
            codes |= np.repeat(scales, codes.shape[2] // item["lanes"], axis=2) << width
            start = end
        if self.minimum < 0:
            codes = (codes ^ (1 << (width - 1))) - (1 << (width - 1))
        result = np.zeros((len(packets), math.prod(self.shape)), np.int64)
        real = self.places >= 0
        result[:, self.places[real]] = codes[:, real]
        return result.reshape(-1, *self.item_shape)

    def encode(self, values: npt.ArrayLike) -> Codes:
        """Return the codes of the nearest values, ties to the even code.

        Raises:
            DriverError: for what is no finite number, or a format without equal steps.
        """
        step, given = self._uniform(), np.asarray(values, np.float64)
        if not np.isfinite(given).all():
            raise DriverError(f"{self.name} was given what is no finite number")
        return np.clip(np.rint(given / step), self.minimum, self.maximum).astype(np.int64)

    def decode(self, codes: npt.ArrayLike) -> Reals:
        """Return the values of codes.

        Raises:
            DriverError: for a format without equal steps.
        """
        return np.asarray(codes, np.float64) * self._uniform()

    def _uniform(self) -> float:
        if self.step is None:
            raise DriverError(
                f"the values of {self.name} have no equal steps: give and take codes, as the "
                "format in design.json defines them"
            )
        return self.step


def _bits(numbers: Codes, width_bits: int) -> Octets:
    """Return the bits of numbers, those of each one after the other, low bits first."""
    bits = numbers[..., None] >> np.arange(width_bits) & 1
    return bits.astype(np.uint8).reshape(*numbers.shape[:-1], numbers.shape[-1] * width_bits)


def _numbers(bits: Octets, width_bits: int) -> Codes:
    """Undo `_bits`, without signs."""
    count = bits.shape[-1] // width_bits
    parts = bits.reshape(*bits.shape[:-1], count, width_bits).astype(np.int64)
    total: Codes = (parts << np.arange(width_bits)).sum(axis=-1)
    return total
