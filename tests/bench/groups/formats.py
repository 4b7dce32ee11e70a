"""What number formats cost: fake quantisation, training steps, and look-up tables in hardware."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tests.bench.base import Benchmark, Row
from tests.bench.training_steps import training_steps

if TYPE_CHECKING:
    from mase_hw.emit.project import Project

ELEMENTS = 1 << 26
QUICK_ELEMENTS = 1 << 21
SEED = 0

QUICK_DESIGNS = ("fixed 8", "mxint 8", "binary")


class Formats(Benchmark):
    """Time in software, area in hardware."""

    name: ClassVar[str] = "formats"
    title: ClassVar[str] = "number formats: one thread, compiled; Yosys xcup"

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures."""
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(SEED)
        yield from throughput(QUICK_ELEMENTS if quick else ELEMENTS)
        yield from training_steps(quick)
        yield from areas(quick)


def throughput(elements: int) -> Iterator[Row]:
    """Time fake quantisation beside `torch.clone`; results equal those that are not compiled."""
    import torch

    from mase_hw.formats import make_format
    from mase_hw.kernels.profile import interleaved

    values = torch.randn(elements)
    for name in ("fixed", "mxint"):
        number = make_format({"name": name})
        torch._dynamo.reset()
        compiled = torch.compile(number.fake_quantize, fullgraph=True)
        _require(torch.equal(compiled(values), number.round_values(values)), f"{number} compiled")
        times = interleaved({"clone": values.clone, "ours": partial(compiled, values)})
        seconds = times["ours"].median_s
        share = times["clone"].median_s / seconds
        yield Row(
            f"{number}: fake quantisation of {elements / 2**20:g} Mi elements",
            f"{share:.2f} of clone's bandwidth ({elements / seconds / 1e6:,.0f} M elements/s)",
            ">= 0.50",
            share >= 0.5,
        )


def areas(quick: bool) -> Iterator[Row]:
    """Synthesize a layer whose one unit is a dot product of 8 lanes, in every format."""
    from mase_hw.experiments import designs, dot_product
    from mase_hw.hardware.synth import synthesize

    chosen = {name: entry for name, entry in designs() if not quick or name in QUICK_DESIGNS}
    projects: dict[str, Project] = {}
    luts: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
        for name, entry in chosen.items():
            project = projects[name] = dot_product(entry, Path(folder) / name.replace(" ", "_"))
            without = synthesize(project.folder, dsp=False).total
            luts[name] = without.lut
            measured = f"{without.lut:,} LUT, {without.ff:,} FF"
            if not quick:
                with_dsp = synthesize(project.folder).total
                measured += f"; with DSP {with_dsp.lut:,} LUT, {with_dsp.dsp} DSP"
            yield Row(f"{name}: linear 64-16, dot product of 8 lanes", measured)
        pair = [projects[name].design.interval_cycles for name in ("mxint 8", "fixed 8")]
        yield Row(
            "mxint 8 beside fixed 8, same parallelism: LUT ratio; cycles per inference",
            f"{luts['mxint 8'] / luts['fixed 8']:.2f}; {pair[0]}, {pair[1]}",
            "interval equal",
            pair[0] == pair[1],
        )


def _require(holds: bool, what: str) -> None:
    """Stop when the check before a figure fails."""
    from mase_hw.errors import MaseError

    if not holds:
        raise MaseError(f"no figure without {what}: the check failed")
