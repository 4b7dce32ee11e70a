"""The SystemVerilog library, as package data."""
