"""Reductions along dimensions, running ones, and orders of elements."""
