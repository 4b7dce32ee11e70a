"""The model, on whatever device holds the design."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .layout import Codes, DriverError, Octets, Port, Reals, WrongDesignError


class Device(Protocol):
    """A link to the hardware, which sends and receives packets."""

    def identify(self) -> int:
        """Return the hash of the design that the device holds."""

    def connect(self, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        """Refuse a design whose streams the device does not serve.

        Raises:
            DriverError: naming what is missing.
        """

    def reset(self) -> None:
        """Forget everything that is inside the design."""

    def run(self, inputs: Sequence[Octets], outputs: Sequence[Port]) -> list[Octets]:
        """Return the packets `[inferences, bytes]` of each output, in whole words of the bus.

        Args:
            inputs: packets `[inferences, bytes]` of each input, likewise.
            outputs: what comes back.

        Raises:
            TimedOutError: when no answer comes.
            DriverError: when the device reports an error.
        """


class Model:
    """Runs inferences on a device, codes in and codes out.

    Args:
        device: what holds the design.
        project: the emitted folder; the one above this package where it is not given.

    Raises:
        WrongDesignError: when the device holds another design.
        DriverError: when the folder is no project with a bus, or the device does not serve it.
    """

    def __init__(self, device: Device, project: str | Path | None = None) -> None:
        folder = Path(project) if project is not None else Path(__file__).resolve().parents[1]
        design = json.loads((folder / "design.json").read_text())
        bus = design.get("bus")
        if bus is None:
            raise DriverError(f"{folder} has no bus ports: emit it with --bus")
        self.inputs, self.outputs = (
            [Port(*pair) for pair in zip(design[end], bus[end], strict=True)]
            for end in ("inputs", "outputs")
        )
        self.hash = int(bus["hash"], 16)
        self.device = device
        found = device.identify()
        if found != self.hash:
            raise WrongDesignError(
                f"the device holds the design {found:016x}, this driver is for {self.hash:016x}: "
                "load the bitstream of this project, or take the driver of that one"
            )
        device.connect(self.inputs, self.outputs)

    def __call__(self, *codes: npt.ArrayLike) -> Codes | tuple[Codes, ...]:
        """Return the codes of each output; several outputs as a tuple.

        Args:
            codes: of each input, see `Port.check`.

        Raises:
            DriverError: for inputs of another number, type, shape or range, or for what the device
                reports.
        """
        if len(codes) != len(self.inputs):
            names = ", ".join(port.name for port in self.inputs)
            raise DriverError(f"{len(codes)} inputs were given; the design has {names}")
        packets = [
            port.words_of(port.pack(item)) for port, item in zip(self.inputs, codes, strict=True)
        ]
        counts = {len(item) for item in packets}
        if len(counts) > 1:
            raise DriverError(f"inputs are of different numbers of inferences: {sorted(counts)}")
        found = self.device.run(packets, self.outputs)
        results = tuple(
            port.unpack(np.asarray(item, np.uint8)[:, : port.bytes])
            for port, item in zip(self.outputs, found, strict=True)
        )
        return results if len(results) > 1 else results[0]

    def encode(self, *values: npt.ArrayLike) -> Codes | tuple[Codes, ...]:
        """Return the codes of real inputs; several inputs as a tuple."""
        codes = tuple(port.encode(item) for port, item in zip(self.inputs, values, strict=True))
        return codes if len(codes) > 1 else codes[0]

    def decode(self, *codes: npt.ArrayLike) -> Reals | tuple[Reals, ...]:
        """Return the real values of outputs; several outputs as a tuple."""
        values = tuple(port.decode(item) for port, item in zip(self.outputs, codes, strict=True))
        return values if len(values) > 1 else values[0]

    def reset(self) -> None:
        """Forget everything that is inside the design."""
        self.device.reset()
