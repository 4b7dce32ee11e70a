"""Files of a command: what it reads is kept, and where it writes no other run does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path

from mase_hw._results import inputs_kept, result_folder

# Parameters that name what a command writes; files that others name are its inputs.
OUTPUTS = ("output", "outputs", "out", "bitstream")
_HELD = ContextVar[ExitStack]("_HELD")


def claim(folder: Path, names: Iterable[str] = ()) -> None:
    """Claim a folder for the files of this command, until it ends, see `result_folder`."""
    _HELD.get().enter_context(result_folder(folder, names))


@contextmanager
def files_of(values: Mapping[str, object]) -> Iterator[None]:
    """Keep the files that a command's parameters name, except for what it writes."""
    words = [str(value) for name, value in values.items() if name not in OUTPUTS]
    # Of `file.py:factory`, the file.
    paths = [Path(part) for word in words for part in (word, word.rpartition(":")[0])]
    with ExitStack() as held:
        held.enter_context(inputs_kept(paths))
        token = _HELD.set(held)
        held.callback(_HELD.reset, token)
        yield
