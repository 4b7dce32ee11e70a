"""Cosimulation of an emitted project.

Two engines, `native` and `cocotb`, stream inputs through the Verilator model of a project, and one
checker compares every element with the integer reference. `simulate` is the entry.
"""

from mase_hw.sim.cocotb_engine import write_testbench
from mase_hw.sim.simulate import SimulationReport, simulate

__all__ = ["SimulationReport", "simulate", "write_testbench"]
