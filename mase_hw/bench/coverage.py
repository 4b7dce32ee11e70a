"""What has hardware of the layers and models that others wrote, and what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from mase_hw._registry import nearest
from mase_hw.bench._base import Benchmark, Row
from mase_hw.bench._emission import SAMPLES, Coverage, reason_against
from mase_hw.bench._few_bits import few_bits_networks
from mase_hw.bench._format_networks import format_networks
from mase_hw.bench._listed_models import module_samples, vision_builders
from mase_hw.bench._size import size_rows
from mase_hw.bench._small_models import side_by_side, small_models
from mase_hw.errors import ConfigError, MaseError

MODULES_BAR, VISION_BAR = 90, 80
# Small models in one design.
TOGETHER = 16
# Every so many layers of a quick run.
QUICK_STEP = 6
# What only a run measures that names it.
LONG = ("modules-exact", "small", "vision", "size", "formats", "few-bits")


class ModelCoverage(Benchmark):
    """Layers of torch's own tests, small models, classifiers, networks in formats."""

    name: ClassVar[str] = "coverage"
    title: ClassVar[str] = "layers and models of others that have hardware"
    default: ClassVar[bool] = False

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = names

    def only(self, names: Sequence[str]) -> ModelCoverage:
        """Return the benchmark with some figures alone."""
        for name in names:
            if name not in PARTS:
                raise ConfigError(
                    f"no figure of coverage is called {name!r}; {nearest(name, PARTS)}"
                )
        return ModelCoverage(names)

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures; `quick` takes some of the layers."""
        import torch

        torch.set_num_threads(1)
        for name in self.names or [name for name in PARTS if name not in LONG]:
            try:
                yield from PARTS[name](quick)
            except MaseError as error:
                yield Row(name, f"not measured: {error}", "", None)


def modules(quick: bool) -> Iterable[Row]:
    """Emit every batched sample of the layers of torch's own tests."""
    return _modules(quick, "emission")


def exact_modules(quick: bool) -> Iterable[Row]:
    """Simulate them, too."""
    return _modules(quick, "simulation")


def _modules(quick: bool, checks: str) -> Iterator[Row]:
    found = Coverage()
    for number, (name, samples) in enumerate(module_samples()):
        if quick and number % QUICK_STEP:
            continue
        reasons = (reason_against(*sample, checks=checks) for sample in samples)
        found.reasons[name] = next(filter(None, reasons), "" if samples else "no batched sample")
    words = "emitted" if checks == "emission" else f"exact ({SAMPLES} inferences, stalls)"
    yield from _counted(f"layers of torch.nn, all samples {words}", found, MODULES_BAR, quick)


def vision(quick: bool) -> Iterator[Row]:
    """Find what stands in the way of torchvision's classifiers."""
    found = Coverage()
    for number, (name, build) in enumerate(vision_builders().items()):
        if quick and number % QUICK_STEP:
            continue
        found.reasons[name] = reason_against(*build(), checks="preflight")
    yield from _counted("torchvision's classifiers without a problem", found, VISION_BAR, quick)


def small(quick: bool) -> Iterator[Row]:
    """Simulate small models, some in one design at a time; alone where that is not exact."""
    found = Coverage()
    listed = list(small_models().items())[:: QUICK_STEP if quick else 1]
    for start in range(0, len(listed), TOGETHER):
        group = [(name, build()) for name, build in listed[start : start + TOGETHER]]
        whole = reason_against(*side_by_side([sample for _, sample in group]), checks="simulation")
        for name, sample in group:
            found.reasons[name] = whole and reason_against(*sample, checks="simulation")
    words = f"small models of the kinds that hls4ml tests, exact ({SAMPLES} inferences, stalls)"
    yield from _counted(words, found, len(listed), quick)


def size(quick: bool) -> Iterable[Row]:
    """Time large classifiers from capture to a project."""
    return size_rows(quick=quick)


def _counted(what: str, found: Coverage, bar: int, quick: bool) -> Iterator[Row]:
    met = None if quick else found.passed >= bar
    yield Row(what, str(found), "" if quick else f">= {bar}", met)
    crashes = found.crashes
    yield Row(f"{what}: crashes", ", ".join(crashes) or "0", "0", not crashes)


PARTS: dict[str, Callable[[bool], Iterable[Row]]] = {
    "modules": modules,
    "modules-exact": exact_modules,
    "small": small,
    "vision": vision,
    "size": size,
    "formats": format_networks,
    "few-bits": few_bits_networks,
}
