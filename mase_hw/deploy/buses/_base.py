"""What a bus is: a template round the design, widths, registers, and designs that it takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from mase_hw.emit.design import DesignSummary
from mase_hw.errors import ConfigError

MOST_PORTS = 8
WIDTHS = tuple(8 << power for power in range(8))


class BusKind(ABC):
    """One kind of bus. Its template gets the frozen `Bus` of a design.

    Attributes:
        name: the word a command uses.
        module: the module of the wrapped design.
        template: of its SystemVerilog.
        registers: the module of its registers; empty for a bus without.
        address_bits: of their addresses.
        widths: bits of a word that can be asked for.
        width_bits: where none is; None for one word a beat.
        has_clock: whether the design can have another clock than the bus.
        has_streams: whether its ports are AXI4-Stream.
        in_memory: whether inputs and results lie in a memory.
    """

    name: ClassVar[str]
    module: ClassVar[str]
    template: ClassVar[str]
    registers: ClassVar[str] = ""
    address_bits: ClassVar[int] = 0
    widths: ClassVar[tuple[int, ...]] = WIDTHS
    width_bits: ClassVar[int | None] = None
    has_clock: ClassVar[bool] = True
    has_streams: ClassVar[bool] = False
    in_memory: ClassVar[bool] = False

    @classmethod
    def check_options(cls, width_bits: int | None, own_clock: bool) -> None:
        """Refuse options that this bus does not have.

        Raises:
            ConfigError: naming the option and what is allowed.
        """
        if width_bits is not None and width_bits not in cls.widths:
            raise ConfigError(
                f"--bus {cls.name} has no words of {width_bits} bits; allowed: "
                f"{', '.join(map(str, cls.widths))}"
            )
        if own_clock and not cls.has_clock:
            raise ConfigError(f"--bus {cls.name} has no clock: leave --own-clock out")

    @classmethod
    @abstractmethod
    def check_design(cls, summary: DesignSummary) -> None:
        """Refuse a design that this bus cannot serve.

        Raises:
            ConfigError: naming what it lacks, and the bus to take.
        """
