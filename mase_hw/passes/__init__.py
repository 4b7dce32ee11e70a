"""Passes: functions `(mg, pass_args) -> (mg, info)` that annotate or rewrite a graph."""
