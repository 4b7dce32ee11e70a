"""The buses of a design, one file each."""
