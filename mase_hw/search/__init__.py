"""Search over number formats and parallelism, with samplers of Optuna.

The package is also the verb: `mase_hw.search(model, config, ...)` is `mase_hw.search.search`.
"""

import sys
from types import ModuleType
from typing import Any

from mase_hw._kinds import Setting
from mase_hw.search.objective import Samples
from mase_hw.search.study import SearchResult, TrialResult, search

__all__ = ["Samples", "SearchResult", "TrialResult", "search"]


class _Verb(ModuleType):
    """A module that can be called."""

    def __call__(self, *args: Any, **options: Setting) -> SearchResult:
        return search(*args, **options)


sys.modules[__name__].__class__ = _Verb
