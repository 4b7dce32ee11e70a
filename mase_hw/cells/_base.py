"""The contract of a cell: the unit of hardware, one module of the SystemVerilog library.

A cell is a frozen dataclass whose fields are the parameters of its module, in upper case there.
Everything that is true of it is said in its class: its ports, how it moves data in time, what it is
made of, and samples for its tests. See README.md beside the package.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mase_hw.cells._components import Components
from mase_hw.cells._device import Device
from mase_hw.cells._motion import Motion
from mase_hw.errors import EmissionError
from mase_hw.formats import Encoding, StreamField
from mase_hw.geometry.tensor import TensorSpec

Octets = npt.NDArray[np.uint8]
Value = bool | int | str | Enum | Encoding


class Image:
    """A memory inside a module, initialised from a file; its words are computed when asked for.

    Args:
        width_bits: bits of a word.
        words: returns the non-negative bit patterns, in address order.
    """

    def __init__(self, width_bits: int, words: Callable[[], Sequence[int]]) -> None:
        self.width_bits = width_bits
        self._words = words
        self._octets: Callable[[], Octets] | None = None

    @classmethod
    def of_octets(cls, width_bits: int, octets: Callable[[], Octets]) -> Image:
        """Return a memory of words `[words, octets]`, the lowest octet first."""
        image = cls(width_bits, lambda: _integers(octets()))
        image._octets = octets
        return image

    @property
    def octets(self) -> Octets:
        """The bit patterns `[words, octets]`, the lowest octet first; computed each time."""
        if self._octets is not None:
            return self._octets()
        size = -(-self.width_bits // 8)
        octets = b"".join(word.to_bytes(size, "little") for word in self.words)
        return np.frombuffer(octets, np.uint8).reshape(-1, size)

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The bit patterns, in address order."""
        return tuple(self._words())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Image)
            and self.width_bits == other.width_bits
            and self.words == other.words
        )

    def __hash__(self) -> int:
        return hash((self.width_bits, self.words))


def _integers(octets: Octets) -> Sequence[int]:
    """Return the numbers that octets are, the lowest first."""
    if octets.shape[1] > 8:
        return [int.from_bytes(row.tobytes(), "little") for row in octets]
    whole = np.pad(octets, ((0, 0), (0, 8 - octets.shape[1])))
    words: list[int] = whole.view("<u8")[:, 0].tolist()
    return words


@dataclass(frozen=True)
class Port:
    """A stream port of a cell, with its `valid` and `ready`.

    Attributes:
        fields: the signals of the payload.
        beats: beats of one inference; 0 for a port that nothing is connected to.
        optional: suffixes of further payload signals that the module has, and this use does not.
        packed: whether the module takes all signals as one vector, the first in the low bits.
    """

    fields: tuple[StreamField, ...]
    beats: int
    optional: tuple[str, ...] = ()
    packed: bool = False

    @property
    def width_bits(self) -> int:
        """Bits of a beat."""
        return sum(item.lanes * item.width_bits for item in self.fields)

    @classmethod
    def of(cls, spec: TensorSpec) -> Port:
        """Return the port of a tensor."""
        rows = spec.parallelism[0]
        return cls(spec.quantized.stream_fields(spec.lanes, rows), spec.beats)

    @classmethod
    def elements(
        cls, encoding: Encoding, lanes: int, beats: int, *, rows: int = 1, scales: bool = False
    ) -> Port:
        """Return a port of `rows` x `lanes` elements a beat.

        Args:
            encoding: of the elements.
            lanes: elements of a row.
            beats: beats of one inference.
            rows: rows of a beat.
            scales: whether the module has a signal of shared scales, which scalars leave open.
        """
        payload = (StreamField("", rows * lanes, encoding.width),)
        if encoding.is_block:
            return cls((*payload, StreamField(SCALE, rows, encoding.scale_width)), beats)
        return cls(payload, beats, (SCALE,) if scales else ())


SCALE = "_exponent"
PARAMETER = "parameter"


def fact(default: object = MISSING) -> Any:
    """Return a field of a cell that is no parameter of its module, such as beats."""
    return field(default=default, metadata={PARAMETER: False})


NO_STREAM = Port((StreamField("", 1, 1),), 0)


@dataclass(frozen=True)
class Origin:
    """Where a lane of a result comes from.

    Attributes:
        port: the input.
        beat: of an inference.
        lane: of the beat; 0 for all of a beat of several signals.
        above: what stands above it, where the lane of the result is wider.
    """

    port: str
    beat: int
    lane: int = 0
    above: int = 0


# For each result of an inference, for each of its lanes: what is moved there, a constant, or None
# where it may be anything.
Origins = Sequence[Sequence[Origin | int | None]]


class Cell(ABC):
    """One use of a module of the library; subclasses are frozen dataclasses.

    Adding a cell is one stem: the class `cells/x.py` and the module `mase_x` in `rtl/`. A third
    party's cell has its module in a file beside its class.
    """

    @property
    def module(self) -> str:
        """The name of the SystemVerilog module: `mase_` and the stem of the class's file."""
        return f"mase_{self._file.stem}"

    @property
    def source(self) -> Path | None:
        """The module's file beside the class, None for a module of the library."""
        beside = self._file.with_name(f"{self.module}.sv")
        return beside if beside.is_file() else None

    @property
    def _file(self) -> Path:
        """The file of the class; what has none is called like its module."""
        name = type(self).__module__
        return Path(sys.modules[name].__file__ or name.rpartition(".")[2])

    @property
    @abstractmethod
    def inputs(self) -> Mapping[str, Port]:
        """The streams that enter, by port."""

    @property
    @abstractmethod
    def outputs(self) -> Mapping[str, Port]:
        """The streams that leave, by port."""

    @property
    @abstractmethod
    def motion(self) -> Motion:
        """How beats move from the inputs to the first output."""

    @property
    @abstractmethod
    def components(self) -> Components:
        """What the module is made of."""

    @property
    def origins(self) -> Origins | None:
        """What each lane of each result shows, for a cell that moves codes and computes none."""
        return None

    @property
    def multipliers(self) -> int:
        """The number of multipliers."""
        return 0

    @property
    def signals(self) -> Mapping[str, str]:
        """Ports that are no streams, clock and reset aside, and the nets of the top on them."""
        return {}

    @property
    def unread(self) -> tuple[str, ...]:
        """Output ports of one bit that nobody reads."""
        return ()

    @property
    def repeated(self) -> tuple[str, ...]:
        """Modules inside it that it instances so often that a simulation shares their code."""
        return ()

    @property
    def parameters(self) -> Mapping[str, Value]:
        """The parameters of the module: the fields, in upper case."""
        found = {
            item.name: getattr(self, item.name)
            for item in fields(self)  # type: ignore[arg-type]
            if item.metadata.get(PARAMETER, True)
        }
        return {
            name.upper(): value
            for name, value in found.items()
            if isinstance(value, bool | int | str | Enum | Encoding)
        }

    @property
    def latencies(self) -> Mapping[str, int]:
        """Cycles that `motion` counts on, as parameters: the module refuses others than its own."""
        return {}

    @property
    def arguments(self) -> Mapping[str, Value]:
        """The parameters of an instance: what it is, and its latencies."""
        return {**self.parameters, **self.latencies}

    def on(self, device: Device, steady: Collection[str] = ()) -> Cell:
        """Return the same as its module makes best use of where it is.

        Args:
            device: whose blocks there are.
            steady: inputs that come from memories which never pause.
        """
        return self

    def multiplexed(self, others: Sequence[Cell]) -> Cell:
        """Return a cell that does in turn what this one and the others do, for layers alike.

        Raises:
            EmissionError: where they differ.
        """
        for other in others:
            alike = (self.module, dict(self.parameters), dict(self.inputs), dict(self.outputs)) == (
                other.module,
                dict(other.parameters),
                dict(other.inputs),
                dict(other.outputs),
            )
            if not alike or self.images != other.images:
                raise EmissionError(
                    f"layers with different weights cannot share a {type(self).__name__}, whose "
                    "parameters or tables follow from weights; emit these layers without reuse"
                )
        return self

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        """Memories by the parameter that takes the file: a part of the file's name, and words."""
        return {}

    @property
    def busy_cycles(self) -> int:
        """Cycles that one inference occupies the cell: a beat of each stream a cycle."""
        ports = (*self.inputs.values(), *self.outputs.values())
        return max((port.beats for port in ports), default=0)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Return cells for the tests: each is streamed by itself under four pressure modes."""
        return ()

    @classmethod
    def proofs(cls) -> Sequence[Cell]:
        """Return cells whose properties are proved: the samples, unless there are smaller ones."""
        return cls.samples()
