"""Arithmetic on two operands."""
