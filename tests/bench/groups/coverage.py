"""What has hardware of the layers and models that others wrote, and what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar, TypeVar

from mase_hw._stages import within
from mase_hw.errors import ConfigError, MaseError
from mase_hw.registry import nearest
from tests.bench.base import Benchmark, Row
from tests.bench.emission import SAMPLES, Coverage, reason_against
from tests.bench.few_bits import few_bits_networks
from tests.bench.format_networks import format_networks
from tests.bench.listed_models import module_samples, vision_builders, vision_families
from tests.bench.size import size_rows
from tests.bench.small_models import small_models
from tests.bench.together import reasons_against

T = TypeVar("T")
MODULES_BAR, VISION_BAR = 90, 80
VISION_SAMPLES, VISION_MULTIPLIERS = 3, 1024
# Every so many layers of a quick run.
QUICK_STEP = 6
# What only a run measures that names it.
LONG = ("modules-exact", "small", "vision", "vision-exact", "size", "formats", "few-bits")


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


def modules(quick: bool) -> Iterator[Row]:
    """Emit every batched sample of the layers of torch's own tests."""
    found = Coverage()
    for name, samples in _chosen(module_samples(), quick):
        with within(f"{len(found.reasons)} layers emitted"):
            found.add(name, (reason_against(*sample) for sample in samples))
    yield from _counted("layers of torch.nn, all samples emitted", found, MODULES_BAR, quick)


def exact_modules(quick: bool) -> Iterator[Row]:
    """Simulate them, too, some in one design at a time; alone where that is not exact."""
    listed = list(_chosen(module_samples(), quick))
    reasons = reasons_against([sample for _, samples in listed for sample in samples])
    found = Coverage()
    for name, samples in listed:
        found.add(name, list(islice(reasons, len(samples))))
    words = f"layers of torch.nn, all samples exact ({SAMPLES} inferences, stalls)"
    yield from _counted(words, found, MODULES_BAR, quick)


def vision(quick: bool) -> Iterator[Row]:
    """Find what stands in the way of torchvision's classifiers."""
    found = Coverage()
    for name, build in _chosen(vision_builders().items(), quick):
        with within(f"{len(found.reasons)} classifiers checked"):
            found.add(name, [reason_against(*build(), checks="preflight")])
    yield from _counted("torchvision's classifiers without a problem", found, VISION_BAR, quick)


def exact_vision(quick: bool) -> Iterator[Row]:
    """Simulate a classifier of each of torchvision's families."""
    found = Coverage()
    families = dict(_chosen(vision_families().items(), quick))
    for name, build in families.items():
        with within(f"{len(found.reasons)} of {len(families)} classifiers simulated"):
            reason = reason_against(
                *build(),
                checks="simulation",
                samples=VISION_SAMPLES,
                multipliers=VISION_MULTIPLIERS,
            )
            found.add(name, [reason])
    words = f"torchvision's families, the smallest of each exact ({VISION_SAMPLES} inferences, "
    yield from _counted(f"{words}stalls)", found, len(families), quick)


def small(quick: bool) -> Iterator[Row]:
    """Simulate small models, some in one design at a time; alone where that is not exact."""
    listed = dict(_chosen(small_models().items(), quick))
    reasons = reasons_against([build() for build in listed.values()])
    found = Coverage(dict(zip(listed, reasons, strict=True)))
    words = f"small models of the kinds that hls4ml tests, exact ({SAMPLES} inferences, stalls)"
    yield from _counted(words, found, len(listed), quick)


def size(quick: bool) -> Iterable[Row]:
    """Time large classifiers from capture to a project."""
    return size_rows(quick=quick)


def _chosen(listed: Iterable[T], quick: bool) -> Iterator[T]:
    return islice(listed, None, None, QUICK_STEP if quick else 1)


def _counted(what: str, found: Coverage, bar: int, quick: bool) -> Iterator[Row]:
    met = None if quick else found.passed >= bar
    yield Row(what, str(found), "" if quick else f">= {bar}", met)
    yield from (Row(f"{name} is left", reason, "", None) for name, reason in found.left.items())
    crashes = found.crashes
    yield Row(f"{what}: crashes", ", ".join(crashes) or "0", "0", not crashes)


PARTS: dict[str, Callable[[bool], Iterable[Row]]] = {
    "modules": modules,
    "modules-exact": exact_modules,
    "small": small,
    "vision": vision,
    "vision-exact": exact_vision,
    "size": size,
    "formats": format_networks,
    "few-bits": few_bits_networks,
}
