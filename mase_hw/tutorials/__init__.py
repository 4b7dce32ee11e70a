"""Tutorials: scripts from beginning to end, each of which `python -m` runs; see README.md."""
