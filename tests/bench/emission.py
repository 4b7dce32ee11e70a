"""Whether models of others become hardware, and what stands in the way of those that do not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw.errors import MaseError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from mase_hw.graph import MaseGraph

SAMPLES, STALL = 20, 0.3
CRASH = "crash: "


@dataclass
class Coverage:
    """What became of a list of models.

    Attributes:
        reasons: of every model by name, what stands in its way; empty when nothing does.
    """

    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, reasons: Iterable[str]) -> None:
        """Note the first thing that stands in the way of a model's samples.

        Args:
            name: of the model.
            reasons: one for each of its samples; empty for nothing.
        """
        found = None
        for found in reasons:
            if found:
                break
        self.reasons[name] = "no batched sample" if found is None else found

    @property
    def left(self) -> dict[str, str]:
        """The models with a reason."""
        return {name: reason for name, reason in self.reasons.items() if reason}

    @property
    def passed(self) -> int:
        """The number of models without a reason."""
        return len(self.reasons) - len(self.left)

    @property
    def crashes(self) -> list[str]:
        """Models that raised anything but an error of this package."""
        return [name for name, reason in self.reasons.items() if reason.startswith(CRASH)]

    def __str__(self) -> str:
        """Return the count, and the models that are left."""
        text = f"{self.passed} of {len(self.reasons)}"
        return f"{text}; left: {', '.join(self.left)}" if self.left else text


def reason_against(
    model: nn.Module,
    inputs: Sequence[Tensor],
    *,
    checks: str = "emission",
    samples: int = SAMPLES,
    multipliers: int = 0,
) -> str:
    """Return what stands between a model and hardware in 8-bit fixed point; empty for nothing.

    Args:
        model: any module.
        inputs: positional tensors of two inferences or more.
        checks: `preflight`, `emission` or `simulation`: how far it must come.
        samples: inferences of a simulation.
        multipliers: that it has; one for each product where none are given.
    """
    from mase_hw.emit.flow import quantize
    from mase_hw.emit.preflight import batch_notes, preflight
    from mase_hw.graph import trace

    try:
        mg = trace(model, tuple(inputs), name="model")
        quantized = quantize(mg)
        problems = [*preflight(quantized), *batch_notes(quantized)]
        if problems or checks == "preflight":
            return "; ".join(dict.fromkeys(map(str, problems)))
        if not mg.batched:
            return "its batch is not free"
        return _emitted(quantized, samples if checks == "simulation" else 0, multipliers)
    except MaseError as error:
        return str(error).splitlines()[0]
    except Exception as error:
        return f"{CRASH}{type(error).__name__}: {str(error).splitlines()[:1]}"


def _emitted(quantized: MaseGraph, samples: int, multipliers: int) -> str:
    from mase_hw.api import emit_verilog, simulate

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "model"
        if multipliers:
            project = emit_verilog(
                quantized, output=output, parallelism="auto", multipliers=multipliers
            )
        else:
            project = emit_verilog(quantized, output=output)
        if not samples:
            return ""
        report = simulate(project, samples=samples, stall=STALL)
        return "" if report.bit_exact else f"{report.mismatches} elements differ"
