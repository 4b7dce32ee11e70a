"""Fast kernels for the number formats."""
