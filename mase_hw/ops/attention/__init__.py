"""Attention: softmax, its product, and the cache of keys and values."""
