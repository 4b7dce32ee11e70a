"""How an inference lies in the packets of a bus: bytes of a beat, words of a bus, legal codes."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass

import torch

from mase_hw.emit.design import Stream
from mase_hw.errors import EmissionError
from mase_hw.formats import Format

# Codes of so many bits are all looked at.
LISTED_BITS = 16
# Words that describe a stream in the registers of a design.
DESCRIPTION_WORDS = 8
MOST_BITS = 1 << 16


@dataclass(frozen=True)
class Codes:
    """The codes of the elements of a stream.

    Attributes:
        minimum: the least legal code.
        maximum: the greatest.
        step: real value of a code of 1, where values are multiples of it; None for others.
    """

    minimum: int
    maximum: int
    step: float | None

    @classmethod
    def of(cls, number_format: Format) -> Codes:
        """Return what the codes of a format are."""
        elements, *shared = number_format.stream_fields(1)
        bits = elements.width_bits + sum(item.width_bits for item in shared)
        if bits > LISTED_BITS or shared:
            pattern = torch.tensor([[(1 << elements.width_bits) - 1]])
            ones = number_format.from_fields({"": pattern}) if not shared else pattern
            if int(ones[0, 0]) < 0:
                return cls(-(1 << bits - 1), (1 << bits - 1) - 1, _step(number_format))
            return cls(0, (1 << bits) - 1, _step(number_format))
        patterns = torch.arange(1 << bits)[:, None]
        codes = number_format.from_fields({"": patterns}).flatten()
        values = number_format.decode(codes)
        again = number_format.decode(number_format.encode(torch.nan_to_num(values)))
        legal = codes[values.isfinite() & (again == values)]
        return cls(int(legal.min()), int(legal.max()), _step(number_format))


def _step(number_format: Format) -> float | None:
    """Return the value of a code of 1, where all values are multiples of it by their codes."""
    try:
        fraction = number_format.integer_fraction
        if fraction is None:
            return None
        codes = torch.tensor([0, 1])
        zero, one = number_format.decode(codes).tolist()
        same = number_format.to_integers(codes).tolist() == [0, 1]
    except (ValueError, RuntimeError, IndexError):
        return None
    return float(one) if same and zero == 0 else None


@dataclass(frozen=True)
class Packet:
    """The packets of one stream, one an inference.

    Its beats follow one another as bytes; each beat is its fields, the first in the low bits, and
    zeros up to whole bytes. The words of the bus are cut from that, the low bytes first.

    Attributes:
        stream: what moves.
        beat_bytes: bytes of a beat in the packet.
        bus_bytes: bytes of a word of the bus.
    """

    stream: Stream
    beat_bytes: int
    bus_bytes: int

    @classmethod
    def of(cls, stream: Stream, width_bits: int | None) -> Packet:
        """Return the packets of a stream on a bus of a width.

        Args:
            stream: what moves.
            width_bits: of the bus; None for the least power of two that holds a beat, each beat
                then being one word.

        Raises:
            EmissionError: for a stream that no packet can hold.
        """
        if stream.spec.grows:
            raise EmissionError(
                f"{stream.name} streams rows that grow, and packets hold whole tensors; wrap a "
                "graph that does not return the attention itself"
            )
        bits = signals(stream)[-1][1] + 1
        if bits > MOST_BITS:
            raise EmissionError(
                f"a beat of {stream.name} has {bits:,} bits, and a bus at most {MOST_BITS:,}; "
                f"lower the parallelism of {stream.node}"
            )
        beat_bytes = -(-bits // 8)
        if width_bits is not None:
            return cls(stream, beat_bytes, width_bits // 8)
        whole = 1 << (beat_bytes - 1).bit_length()
        return cls(stream, whole, whole)

    @property
    def bytes(self) -> int:
        """Bytes of a packet."""
        return self.stream.spec.beats * self.beat_bytes

    @property
    def words(self) -> int:
        """Words of the bus of a packet; the last one may be part empty."""
        return -(-self.bytes // self.bus_bytes)

    @property
    def payload(self) -> tuple[tuple[str, int, int], ...]:
        """The signals of a beat, each with its highest and lowest bit in the bytes of a beat."""
        return signals(self.stream)

    @property
    def description(self) -> tuple[int, ...]:
        """The words that the registers of a design show of the stream."""
        spec, item = self.stream.spec, self.stream.fields[0]
        text = json.dumps(spec.quantized.to_dict(), sort_keys=True)
        sizes = (*reversed(spec.shape), 1, 1)
        return (
            self.bytes,
            spec.beats,
            self.beat_bytes,
            item.lanes << 16 | item.width_bits,
            zlib.crc32(text.encode()),
            len(spec.shape),
            sizes[0],
            sizes[1],
        )

    def to_dict(self) -> dict[str, object]:
        """Return the entry of `design.json`."""
        return {
            "stream": self.stream.name,
            "bus_bytes": self.bus_bytes,
            "beat_bytes": self.beat_bytes,
            "bytes": self.bytes,
            "words": self.words,
            "codes": asdict(Codes.of(self.stream.spec.quantized)),
        }


def signals(stream: Stream) -> tuple[tuple[str, int, int], ...]:
    """Return the signals of a beat, each with its highest and lowest bit."""
    low, found = 0, []
    for item in stream.fields:
        high = low + item.lanes * item.width_bits - 1
        found.append((f"{stream.name}{item.suffix}", high, low))
        low = high + 1
    return tuple(found)
