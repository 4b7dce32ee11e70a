"""Convolutions, and the windows under them."""
