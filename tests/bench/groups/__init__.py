"""The groups of figures, one a file."""
