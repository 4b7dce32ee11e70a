"""The AXI4 read port through which constants come that do not lie on chip."""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw._kinds import Table
from mase_hw.errors import ConfigError
from mase_hw.registry import nearest

ON_CHIP, EXTERNAL = "on-chip", "external"
# Of what memories on chip are made; `auto` is by their size.
AUTO, LOGIC, DISTRIBUTED, BLOCK = "auto", "logic", "distributed", "block"
STYLES = (AUTO, LOGIC, DISTRIBUTED, BLOCK)
# The device whose blocks no module uses.
GENERIC = "generic"
DATA_WIDTHS = (32, 64, 128, 256, 512, 1024)
# AXI4: a burst crosses no boundary of 4 KiB, and has at most 256 beats.
PAGE_BYTES = 4096
MAX_BURST_BEATS = 256


@dataclass(frozen=True)
class MemoryPort:
    """One AXI4 read port, and what is assumed of the memory behind it.

    Attributes:
        data_width: bits of a beat.
        address_width: bits of an address.
        burst_beats: beats of a burst, fewer in the last one of a region.
        outstanding: bursts that may be on their way at a time.
        latency_cycles: from the cycle in which a burst is asked for to its first beat.
        bytes_per_cycle: what the memory delivers at most; 0 is a beat in every cycle.
        buffer_bytes: on-chip bytes that each source may use to keep two rounds of constants that
            an inference takes several times, so that they are read once an inference.
    """

    data_width: int = 64
    address_width: int = 32
    burst_beats: int = 16
    outstanding: int = 16
    latency_cycles: int = 32
    bytes_per_cycle: int = 0
    buffer_bytes: int = 16384

    def __post_init__(self) -> None:
        beat_bytes = self.data_width // 8
        longest = min(MAX_BURST_BEATS, PAGE_BYTES // max(beat_bytes, 1))
        bursts = [2**power for power in range(9) if 2**power <= longest]
        rates = [2**power for power in range(8) if 2**power <= beat_bytes]
        self._check("data_width", DATA_WIDTHS)
        self._check("address_width", range(16, 65))
        self._check("burst_beats", bursts)
        self._check("outstanding", range(1, 257))
        self._check("latency_cycles", range(1, 1 << 20))
        self._check("bytes_per_cycle", [0, *rates])
        self._check("buffer_bytes", range(1 << 30))

    def _check(self, name: str, legal: range | list[int] | tuple[int, ...]) -> None:
        value = getattr(self, name)
        if type(value) is int and value in legal:
            return
        if isinstance(legal, range):
            allowed = f"{legal.start} to {legal.stop - 1}"
        else:
            allowed = ", ".join(map(str, legal))
        raise ConfigError(f"memory: {name} is {value!r}; allowed: {allowed}")

    @classmethod
    def parse(cls, options: Table) -> MemoryPort:
        """Return the port of a configuration's options.

        Raises:
            ConfigError: for an unknown option, or a value that is not legal.
        """
        legal = cls.__dataclass_fields__
        for key in options:
            if key not in legal:
                raise ConfigError(
                    f"memory: unknown option {key!r}; {nearest(key, ['default', 'style', *legal])}"
                )
        return cls(**options)

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return self.data_width // 8

    @property
    def cycles_per_beat(self) -> int:
        """Cycles from one beat to the next, at best."""
        return self.beat_bytes // (self.bytes_per_cycle or self.beat_bytes)
