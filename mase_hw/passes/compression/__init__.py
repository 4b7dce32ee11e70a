"""Compression: pruning, adapters, weights rounded well, learned steps."""
