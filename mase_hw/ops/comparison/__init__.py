"""Comparisons, logic, and what they choose."""
