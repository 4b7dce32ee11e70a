"""Images and signals of another size."""
