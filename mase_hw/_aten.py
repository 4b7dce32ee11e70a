"""The operators of torch, typed: `aten.add.Tensor(x, y)` is a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import torch

if TYPE_CHECKING:
    from torch._ops import OpOverload

    class Overload(OpOverload):
        """An operator for some kinds of arguments."""

        def __call__(self, *args: object, **keywords: object) -> torch.Tensor:
            """Return its result, of one or of a list."""

    class Packet(Protocol):
        """Its overloads, by name."""

        def __getattr__(self, name: str) -> Overload: ...

    class Library(Protocol):
        """Operators by name."""

        def __getattr__(self, name: str) -> Packet: ...


aten: Library = cast("Library", torch.ops.aten)


def overload(target: object) -> Overload:
    """Return the target of a node that calls an operator of torch."""
    return cast("Overload", target)
