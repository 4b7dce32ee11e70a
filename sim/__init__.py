"""Cosimulation of an emitted project."""
