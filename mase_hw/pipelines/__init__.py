"""Pipelines: compression steps in a declared order, and the files that carry results."""
