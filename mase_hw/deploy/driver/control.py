"""The registers of a design: identity, reset, batches, weights, and errors by name."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import Protocol

from . import registers as at
from .layout import DriverError, TimedOutError

# A register that a loop waits for is read so often.
POLL_S = 0.0005


class Registers(Protocol):
    """What PYNQ's `MMIO` offers: words of 32 bits at byte addresses."""

    def read(self, address: int) -> int:
        """Word of the register at a byte address."""

    def write(self, address: int, value: int) -> None:
        """Set the register at a byte address to a word."""


class Control:
    """A design behind registers.

    Args:
        registers: of the design.
        timeout_s: seconds within which a batch, a reset, or what is inside before a load ends.
    """

    def __init__(self, registers: Registers, timeout_s: float = 5.0) -> None:
        self.registers, self.timeout_s = registers, timeout_s

    def identify(self) -> int:
        """Return the hash of the design.

        Raises:
            DriverError: where no design is at the registers.
        """
        if (found := self.registers.read(at.MAGIC)) != at.MAGIC_WORD:
            raise DriverError(
                f"no design is at these registers: {found:#x} in place of {at.MAGIC_WORD:#x}"
            )
        high, low = self.registers.read(at.HASH_HIGH), self.registers.read(at.HASH_LOW)
        return int(high) << 32 | int(low)

    def ports(self) -> tuple[int, int]:
        """Return the numbers of inputs and outputs."""
        ports = self.registers.read(at.PORTS)
        return ports & 255, ports >> 8 & 255

    def reset(self) -> None:
        """Forget everything that is inside the design, and all errors.

        Raises:
            TimedOutError: where words on their way are not taken or answered.
        """
        self.registers.write(at.CONTROL, at.CONTROL_RESET)
        self.wait(at.STATUS_BUSY, 0, "words on their way were not taken after a reset")
        self.registers.write(at.ERROR, 0xFFFFFFFF)

    def start(self, source: int, result: int, count: int) -> None:
        """Start a batch of a design whose inferences lie in a memory.

        Args:
            source: address of the first packet.
            result: address of the first result.
            count: inferences.

        Raises:
            DriverError: where an address is none of a word, or the design is busy.
        """
        for low, high, address in (
            (at.INPUT_LOW, at.INPUT_HIGH, source),
            (at.OUTPUT_LOW, at.OUTPUT_HIGH, result),
        ):
            self.registers.write(low, address & 0xFFFFFFFF)
            self.registers.write(high, address >> 32)
        self.registers.write(at.COUNT, count)
        self.registers.write(at.CONTROL, at.CONTROL_START)
        error = self.registers.read(at.ERROR)
        if error & (1 << at.ERRORS["bad_start"][0]):
            self.check()

    def finish(self) -> None:
        """Wait for the end of a batch.

        Raises:
            TimedOutError: where it does not come.
            DriverError: naming what went wrong, or where a reset ended it.
        """
        self.wait(at.STATUS_BUSY, 0, "the batch did not end")
        self.check()
        if not self.registers.read(at.STATUS) & at.STATUS_DONE:
            raise DriverError("the batch was ended by a reset")

    def wait(self, mask: int, value: int, failure: str) -> None:
        """Wait until bits of STATUS have a value.

        Raises:
            TimedOutError: where they do not in time.
        """
        end = time.monotonic() + self.timeout_s
        while (status := self.registers.read(at.STATUS)) & mask != value:
            if time.monotonic() > end:
                raise TimedOutError(f"{failure} within {self.timeout_s:g} s; STATUS is {status:#x}")
            time.sleep(POLL_S)

    def check(self) -> None:
        """Clear the errors.

        Raises:
            DriverError: naming each, and the first wrong inference.
        """
        if error := self.registers.read(at.ERROR):
            first = self.registers.read(at.FIRST_WRONG)
            self.registers.write(at.ERROR, error)
            names = ", ".join(error_names(error))
            raise DriverError(f"the design reports {names}; results are wrong from {first} on")

    def load(self, image: bytes) -> None:
        """Give the design the weights of an image of `mase-hw pack-weights`.

        Raises:
            TimedOutError: when inferences do not come out of the design.
            DriverError: when the image is of another design, or damaged.
        """
        if len(image) % 4 or len(image) < 16:
            raise DriverError(
                f"an image of weights has whole words; this one has {len(image)} bytes"
            )
        bad = 1 << at.ERRORS["bad_weights"][0]
        self.registers.write(at.ERROR, bad)
        self.registers.write(at.CONTROL, at.CONTROL_LOAD)
        loading = at.STATUS_LOADING
        self.wait(loading, loading, "inferences were still in the design")
        for (word,) in struct.iter_unpack("<I", image):
            self.registers.write(at.WEIGHTS, word)
        status, error = self.registers.read(at.STATUS), self.registers.read(at.ERROR)
        whole = status & at.STATUS_WEIGHTS_WHOLE
        if error & bad or status & loading or not whole:
            state = "are as before" if whole else "are damaged: load an image that is whole"
            raise DriverError(f"the image was refused; the weights of the design {state}")


def error_names(error: int) -> Sequence[str]:
    """Return the names of the bits of ERROR that are set, with the input of those that have one."""
    names = []
    for name, (low, high) in at.ERRORS.items():
        for bit in range(low, high + 1):
            if error >> bit & 1:
                names.append(f"{name} of input {bit - low}" if high > low else name)
    return names
