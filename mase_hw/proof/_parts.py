"""What no cell describes as a stream with inputs: forks, joins, gearboxes and sources of words.

The properties of each are a template of their own, `templates/proof_PART.sv.j2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from mase_hw._resources import template_environment
from mase_hw.proof._harness import TOP


@dataclass(frozen=True)
class Part:
    """A part with its parameters; a subclass is one part.

    Attributes:
        name: of its template, and in a table.
        module: its module.
    """

    name: ClassVar[str] = ""
    module: ClassVar[str] = ""

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        """Return the parameters that it is proved for."""
        raise NotImplementedError

    @property
    def images(self) -> Mapping[str, str]:
        """The memory images that the module reads, by file."""
        return {}

    @property
    def described(self) -> str:
        """The parameters, in one line."""
        return ", ".join(f"{item.name} {getattr(self, item.name)}" for item in fields(self))

    @property
    def text(self) -> str:
        """The module with the properties."""
        environment = template_environment()
        template = environment.get_template(f"proof_{self.name}.sv.j2")
        return template.render(top=TOP, **self.values)

    @property
    def values(self) -> Mapping[str, object]:
        """What the template asks for."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True)
class Fork(Part):
    """A fork to `count` consumers."""

    name: ClassVar[str] = "fork"
    module: ClassVar[str] = "mase_stream_fork"
    count: int

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        """Up to five consumers."""
        return [cls(count) for count in range(2, 6)]


@dataclass(frozen=True)
class Join(Part):
    """A join of `count` producers."""

    name: ClassVar[str] = "join"
    module: ClassVar[str] = "mase_stream_join"
    count: int

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        """Up to five producers."""
        return [cls(count) for count in range(2, 6)]


@dataclass(frozen=True)
class Gearbox(Part):
    """A gearbox of beats of `in_width` bits into `words` words of `out_width` bits a period."""

    name: ClassVar[str] = "gearbox"
    module: ClassVar[str] = "mase_stream_gearbox"
    in_width: int
    out_width: int
    words: int

    @property
    def values(self) -> Mapping[str, object]:
        """The parameters, and which beats each word needs."""
        needs = [-(-(word + 1) * self.out_width // self.in_width) for word in range(self.words)]
        beats = needs[-1]
        bits = (max(beats, self.words) + 1).bit_length()
        return {**super().values, "needs": needs, "beats": beats, "bits": bits}

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        """To less and to more bits, with and without a rest."""
        sizes = ((4, 2, 3), (4, 3, 3), (2, 3, 2), (2, 4, 2), (3, 3, 1), (4, 1, 5), (2, 5, 3))
        return [cls(*item) for item in sizes]


@dataclass(frozen=True)
class RomSource(Part):
    """A source of `depth` words for ever, each for `hold` beats, in block memory or elsewhere."""

    name: ClassVar[str] = "rom_source"
    module: ClassVar[str] = "mase_rom_source"
    depth: int
    hold: int
    block: bool = False

    @property
    def words(self) -> list[int]:
        """Words that differ, and whose order is no count."""
        return sorted(range(self.depth), key=lambda place: (place * 5 + 3) % 8)

    @property
    def values(self) -> Mapping[str, object]:
        """The parameters, the words, and bits of a word and of counts."""
        bits = max(self.depth, self.hold).bit_length()
        (file,) = self.images
        return {**super().values, "words": self.words, "width": bits, "bits": bits, "file": file}

    @property
    def images(self) -> Mapping[str, str]:
        """The words."""
        return {"words.mem": "".join(f"{word:x}\n" for word in self.words)}

    @classmethod
    def proofs(cls) -> Sequence[Part]:
        """One word up to five, one beat up to three."""
        sizes = ((1, 1), (2, 1), (3, 1), (4, 2), (5, 3))
        return [*(cls(*item) for item in sizes), cls(3, 2, block=True)]


def parts() -> Iterator[type[Part]]:
    """Yield all parts."""
    yield from (Fork, Join, Gearbox, RomSource)
