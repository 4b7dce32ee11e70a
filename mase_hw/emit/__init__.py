"""Emission: a graph becomes a folder of SystemVerilog."""
