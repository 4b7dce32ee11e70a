"""Families of ONNX operators: a file's `OPERATORS` says by type what computes a node."""
