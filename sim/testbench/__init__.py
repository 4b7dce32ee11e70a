"""The cocotb testbench that is written into every emitted project; it imports nothing of ours."""
