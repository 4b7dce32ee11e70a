"""What a design costs in hardware: synthesis."""
