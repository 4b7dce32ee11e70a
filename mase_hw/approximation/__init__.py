"""Real functions in hardware: tables, polynomials and powers, and how far they are off."""

from mase_hw.approximation._real_math import FAST, PRECISE, Precise, Real, RealMath
from mase_hw.approximation.domain import EVERYWHERE, Domain

__all__ = ["EVERYWHERE", "FAST", "PRECISE", "Domain", "Precise", "Real", "RealMath"]
