"""The canonical graph: what a captured model becomes before its numbers are chosen."""
