"""Modules whose results were compared with a definition of their own for all inputs.

`compared.json` has a digest of each with its inner modules, comments and checks left out; `python
-m tests.cells.compared` writes it where every comparison passes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from mase_hw.proof._solver import Verdict

RECORD = "compared.json"
# What the circuit does not consist of.
_LEFT_OUT = re.compile(r"//[^\n]*|`ifdef MASE_CHECKS\n.*?`endif[^\n]*\n", re.DOTALL)


def digest(texts: Mapping[str, str]) -> str:
    """Return a digest of modules by name, whatever their layout and comments."""
    words = {name: _LEFT_OUT.sub("", text).split() for name, text in texts.items()}
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]


@cache
def recorded() -> Mapping[str, str]:
    """Return the digest of every module that was compared, by name."""
    digests: dict[str, str] = json.loads(files(__package__).joinpath(RECORD).read_text())
    return digests


def compared(module: str, texts: Mapping[str, str]) -> Verdict:
    """Verdict on the function of a module.

    Args:
        module: its name.
        texts: its text and those of all that it names.
    """
    recorded_digest = recorded().get(module)
    if recorded_digest is None:
        return Verdict("simulated", 0)
    return Verdict("compared" if digest(texts) == recorded_digest else "unlike", 0)
