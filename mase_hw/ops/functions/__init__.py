"""Functions of one real number."""
