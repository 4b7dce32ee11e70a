"""Proofs that streams lose, duplicate, reorder and invent no beat, for all times and inputs."""

from mase_hw.proof._design import prove_design
from mase_hw.proof._equivalence import Machines, equivalent
from mase_hw.proof._parts import parts
from mase_hw.proof._prove import LIMIT_SECONDS, prove, prove_cell, prove_part, prove_start, subjects
from mase_hw.proof._report import ProofReport, ProofRow
from mase_hw.proof._solver import Verdict

__all__ = [
    "LIMIT_SECONDS",
    "Machines",
    "ProofReport",
    "ProofRow",
    "Verdict",
    "equivalent",
    "parts",
    "prove",
    "prove_cell",
    "prove_design",
    "prove_part",
    "prove_start",
    "subjects",
]
