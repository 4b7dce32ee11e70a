"""Elements that are moved, picked, joined or repeated."""
