"""Normalisation over a batch or over rows."""
