"""What a pass asks of some operators alone: a class that they inherit beside `Operator`."""

from __future__ import annotations

from typing import ClassVar, Self


class Interface:
    """One question of the passes, with the answer of an operator that says nothing about it.

    A pass asks `isinstance(operator, Masked)` where only some operators have an answer, and
    `Numeric.of(operator).keeps_format` where all have one. An operator that defines a member
    without its interface would not be asked: `check` refuses its class.
    """

    known: ClassVar[list[type[Interface]]] = []

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if Interface in cls.__bases__:
            Interface.known.append(cls)

    @classmethod
    def of(cls, operator: object) -> Self:
        """Return the operator where it has the interface, and the default answers where not."""
        if isinstance(operator, cls):
            return operator
        missing = [n for n, i in vars(cls).items() if getattr(i, "__isabstractmethod__", False)]
        assert not missing, f"{cls.__name__} has no default for {missing}: ask isinstance"
        return cls()

    @staticmethod
    def check(operator: type) -> None:
        """Refuse the class of an operator that has members of an interface without inheriting it.

        Raises:
            TypeError: naming the member and the interface.
        """
        for interface in Interface.known:
            members = {name for name in vars(interface) if not name.startswith("_")}
            defined = sorted(name for name in members if hasattr(operator, name))
            if defined and not issubclass(operator, interface):
                raise TypeError(
                    f"{operator.__name__} defines {defined[0]}, which passes ask of "
                    f"{interface.__name__}: write class {operator.__name__}(..., "
                    f"{interface.__name__})"
                )
