"""What a part is: a module, its parameters, and the template of its properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from mase_hw._resources import template_environment
from mase_hw.cells import Cell
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

    @classmethod
    def of(cls, cell: Cell) -> Part | None:
        """Part of a cell with its parameters.

        None where it is another one, or more than is proved in minutes.
        """
        if cell.module != cls.module:
            return None
        parameters = {name.lower(): value for name, value in cell.parameters.items()}
        return cls(**{item.name: parameters[item.name] for item in fields(cls)})

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
        template = environment.get_template(f"proof/{self.name}.sv.j2")
        return template.render(top=TOP, **self.values)

    @property
    def values(self) -> Mapping[str, object]:
        """What the template asks for."""
        return {item.name: getattr(self, item.name) for item in fields(self)}
