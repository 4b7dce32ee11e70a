"""What reads constants from an external memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mase_hw.graph.memory import PAGE_BYTES
from mase_hw.proof._harness import index_bits
from mase_hw.proof._parts._base import Part


@dataclass(frozen=True)
class AxiReadPort(Part):
    """A port that `sources` requesters share, with `outstanding` bursts on their way at most."""

    name: ClassVar[str] = "axi_read_port"
    module: ClassVar[str] = "mase_axi_read_port"
    sources: int
    address_width: int
    data_width: int
    id_width: int
    outstanding: int

    @property
    def values(self) -> Mapping[str, object]:
        """The parameters, a base address, the code of a beat's bytes, and bits of counts."""
        return {
            **super().values,
            "base": PAGE_BYTES % (1 << self.address_width),
            "size": (self.data_width // 8).bit_length() - 1,
            "source_bits": index_bits(self.sources),
            "count_bits": (self.outstanding + 1).bit_length(),
        }

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        """One requester up to three, one burst up to four."""
        sizes = ((1, 2, 8, 1, 1), (2, 13, 8, 1, 2), (3, 2, 16, 2, 3), (2, 2, 8, 2, 4))
        return [cls(*item) for item in sizes]
