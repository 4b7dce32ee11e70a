"""Search over number formats and parallelism, with samplers of Optuna."""

from mase_hw.search.study import SearchResult, TrialResult, search

__all__ = ["SearchResult", "TrialResult", "search"]
