"""Clock rates after place and route, and area for a rate."""

from __future__ import annotations

import re
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tests.bench.base import Benchmark, Row, timed
from tests.bench.clock_units import DEVICE, SEEDS, SPEED, TARGET, checked

if TYPE_CHECKING:
    from mase_hw.emit.project import Project
    from mase_hw.hardware.route import RouteReport
    from tests.bench.clock_units import Unit

DEPTH_BAR = 0.85
# Clock and the budget of multipliers of whole networks.
NETWORKS: Mapping[str, tuple[float, int]] = {"digits-mlp": (150.0, 64), "mnist-lenet": (120.0, 128)}
# The clock that a network is routed for, where it comes near: the router then takes up and routes
# anew what is late. Where the clock is far off, it would find no end.
ROUTED_MHZ: Mapping[str, float] = {"digits-mlp": 155.0}
BITSTREAM_MINUTES = 10.0
# LUT, DSP and BRAM at most, by parallelism.
AREAS: Mapping[int, tuple[int, int, int] | None] = {
    1: (500, 4, 4),
    2: None,
    4: (1_800, 32, 10),
    8: None,
    16: None,
}
# LUT times interval to stay below, by parallelism.
PRODUCTS: Mapping[int, float] = {1: 3.38e6, 2: 0.92e6, 4: 0.46e6, 8: 0.18e6, 16: 0.11e6}
WITHOUT_DSP_INTERVAL, WITHOUT_DSP_LUT = 300, 3_500
# Designs whose estimate is compared with Yosys, and the relative errors to stay within.
ESTIMATED, QUICK_ESTIMATED = 42, 6
MEDIAN_ERROR, WORST_ERROR = 0.03, 0.10
EXPLORED, CANDIDATES, EXPLORE_SECONDS = "fashion-resnet8", 10_000, 10.0
EXPLORED_INTERVAL, OPTIMUM_GAP = 20_384, 0.05
# The relative error of a predicted clock rate to stay within.
CLOCK_ERROR = 0.15

Measure = Callable[[Path, int], Iterator[Row]]


class Clock(Benchmark):
    """Units, chains of them, whole networks, and the area of a perceptron."""

    name: ClassVar[str] = "clock"
    title: ClassVar[str] = f"{DEVICE} speed {SPEED}, flip-flops at the ports; resources: Yosys xcup"

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = names

    def only(self, names: Sequence[str]) -> Clock:
        """Return the benchmark with some figures alone."""
        from mase_hw.errors import ConfigError
        from mase_hw.registry import nearest

        known = figures()
        for name in names:
            if name not in known:
                raise ConfigError(f"no clock figure is called {name!r}; {nearest(name, known)}")
        return Clock(names)

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures; `quick` places once in place of three times."""
        import torch

        torch.set_num_threads(1)
        known = figures()
        with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
            for name in self.names or known:
                yield from known[name](Path(folder), 1 if quick else SEEDS)


def figures() -> dict[str, Measure]:
    """Return what measures each figure, by the name that `--only` takes."""
    from tests.bench.clock_units import CHAINS, UNITS

    return {
        **{name: partial(unit_rows, name, unit) for name, unit in UNITS.items()},
        **{name: partial(chain_rows, name, chain) for name, chain in CHAINS.items()},
        **{name: partial(network_rows, name) for name in NETWORKS},
        "bitstream": bitstream_rows,
        **{f"area-p{parallelism}": partial(area_rows, parallelism) for parallelism in AREAS},
        "area-without-dsp": area_without_dsp_rows,
        "estimator": estimator_rows,
        "exploration": exploration_rows,
        "prediction": prediction_rows,
        "cycles": cycle_rows,
        "build": build_rows,
    }


def unit_rows(name: str, unit: Unit, folder: Path, seeds: int) -> Iterator[Row]:
    """Place and route one unit."""
    project = checked(unit.emit(folder / name))
    yield clock_row(name, project, seeds, unit.bar_mhz, rip_up=True)[0]


def chain_rows(name: str, chain: Mapping[int, Unit], folder: Path, seeds: int) -> Iterator[Row]:
    """Place and route chains of a unit, and compare the longest with the shortest."""
    rates: dict[int, float] = {}
    for count, unit in chain.items():
        project = checked(unit.emit(folder / f"{name}{count}"))
        row, report = clock_row(f"{name}, chain of {count}", project, seeds, None, rip_up=True)
        rates[count] = report.fmax_mhz
        yield row
    ratio = rates[max(rates)] / rates[min(rates)]
    yield Row(
        f"{name}: clock of {max(rates)} against {min(rates)}",
        f"{ratio:.2f} x",
        f">= {DEPTH_BAR:g} x",
        ratio >= DEPTH_BAR,
    )


def network_rows(name: str, folder: Path, seeds: int) -> Iterator[Row]:
    """Place and route a registered network."""
    bar, _ = NETWORKS[name]
    project = checked(emit_network(name, folder))
    clock = ROUTED_MHZ.get(name)
    row, report = clock_row(name, project, seeds, bar, rip_up=clock is not None, clock_mhz=clock)
    yield row
    error = predicted_mhz(project) / report.fmax_mhz - 1
    yield Row(
        f"{name}: predicted against routed clock",
        f"{error:+.1%}",
        f"within {CLOCK_ERROR:.0%}",
        abs(error) <= CLOCK_ERROR,
    )


def bitstream_rows(folder: Path, seeds: int) -> Iterator[Row]:
    """Time the way from a trained model to a bitstream."""
    from mase_hw.hardware.route import route
    from mase_hw.models import models

    name = next(iter(NETWORKS))
    models()[name].load()  # Trains it where it never was.
    bitstream = folder / "network.bit"
    with timed() as elapsed:
        project = emit_network(name, folder / "timed")
        report = route(project.folder, TARGET, device=DEVICE, speed=SPEED, bitstream=bitstream)
    checked(project)
    minutes = elapsed.wall / 60
    yield Row(
        f"{name}: from the model to a bitstream, pins of {report.part.package}",
        f"{minutes:.1f} minutes ({bitstream.stat().st_size:,} bytes, {report.fmax_mhz:.1f} MHz)",
        f"<= {BITSTREAM_MINUTES:g} minutes",
        minutes <= BITSTREAM_MINUTES,
    )


def area_rows(parallelism: int, folder: Path, seeds: int) -> Iterator[Row]:
    """Synthesize the perceptron of `python -m tests.bench flow` with DSPs."""
    from mase_hw.hardware.synth import synthesize

    project = perceptron(parallelism, folder / f"perceptron-p{parallelism}", "xcup")
    total, interval = synthesize(project.folder).total, project.design.interval_cycles
    what = f"16-64-32-32-5, p {parallelism}, Yosys xcup"
    measured = (total.lut, total.dsp, total.bram)
    bar = AREAS[parallelism]
    yield Row(
        f"{what}: LUT, DSP, BRAM (FF; interval)",
        f"{total.lut:,}, {total.dsp}, {total.bram:g} ({total.ff:,}; {interval:,} cycles)",
        "<= {:,}, {}, {}".format(*bar) if bar else "",
        all(a <= b for a, b in zip(measured, bar, strict=True)) if bar else None,
    )
    product = total.lut * interval
    limit = PRODUCTS[parallelism]
    yield Row(
        f"{what}: LUT x interval", f"{product / 1e6:.3f} M", f"< {limit / 1e6:g} M", product < limit
    )


def area_without_dsp_rows(folder: Path, seeds: int) -> Iterator[Row]:
    """Synthesize the perceptron of least resources for a rate without DSPs."""
    from mase_hw.hardware.synth import synthesize

    target = {"default": "auto", "target_interval": WITHOUT_DSP_INTERVAL}
    project = perceptron(target, folder / "perceptron-target")
    total, interval = synthesize(project.folder, dsp=False).total, project.design.interval_cycles
    yield Row(
        f"16-64-32-32-5, --target-interval {WITHOUT_DSP_INTERVAL}, Yosys xcup without DSP: "
        "LUT (BRAM, FF; interval)",
        f"{total.lut:,} ({total.bram:g}, {total.ff:,}; {interval:,} cycles)",
        f"<= {WITHOUT_DSP_LUT:,} at <= {WITHOUT_DSP_INTERVAL} cycles",
        total.dsp == 0 and total.lut <= WITHOUT_DSP_LUT and interval <= WITHOUT_DSP_INTERVAL,
    )


def estimator_rows(folder: Path, seeds: int) -> Iterator[Row]:
    """Compare estimates with Yosys on designs that nothing was fitted on; some of them quickly."""
    from tests.bench.estimates import compared, held_out, spread

    count = ESTIMATED if seeds == SEEDS else QUICK_ESTIMATED
    found = [compared(name, cells) for name, cells in held_out(count)]
    for place, what in enumerate(("LUT", "FF")):
        median, worst = spread(found, place)
        far = max(found, key=lambda item: abs(item.error(place)))
        yield Row(
            f"estimator against Yosys on {len(found)} designs that are not in the fit: {what}",
            f"median error {median:.1%}, worst {worst:.1%} ({far.name})",
            f"median <= {MEDIAN_ERROR:.0%}, worst <= {WORST_ERROR:.0%}",
            median <= MEDIAN_ERROR and worst <= WORST_ERROR,
        )
    for place, what in ((2, "DSP"), (3, "BRAM")):
        exact = sum(item.counted[place] == item.guessed[place] for item in found)
        yield Row(
            f"estimator against Yosys: designs with exact {what}",
            f"{exact} of {len(found)}",
            "all",
            exact == len(found),
        )


def exploration_rows(folder: Path, seeds: int) -> Iterator[Row]:
    """Compare the search for a parallelism with enumeration, and time it on a network."""
    from mase_hw.emit.exploration import explored
    from mase_hw.emit.flow import quantize
    from mase_hw.graph import trace
    from mase_hw.models import models
    from tests.bench.explorations import largest_gap

    gap, spaces, designs = largest_gap()
    yield Row(
        f"exploration: gap to the exhaustive optimum, {spaces} questions to {designs:,} designs",
        f"{gap:.2%}",
        f"<= {OPTIMUM_GAP:.0%}",
        gap <= OPTIMUM_GAP,
    )
    model = models()[EXPLORED]
    trained = model.load()
    graph = quantize(trace(trained.module, trained.example_inputs, name="explored"), model.config)
    with timed() as elapsed:
        plan, front, count = explored(graph, parallelism={"target_interval": EXPLORED_INTERVAL})
    yield Row(
        f"exploration: {EXPLORED}, a target and a front of {len(front)} points",
        f"{count:,} candidates of nodes in {elapsed.cpu:.1f} CPU-s ({elapsed.wall:.1f} s); "
        f"{plan.interval:,} cycles, {plan.cost.lut:,} LUT, {plan.cost.dsp} DSP",
        f">= {CANDIDATES:,} in <= {EXPLORE_SECONDS:g} s",
        count >= CANDIDATES and elapsed.wall <= EXPLORE_SECONDS,
    )


def prediction_rows(folder: Path, seeds: int) -> Iterator[Row]:
    """Compare the clock rates that predictions are fitted on with fits that lack one of them.

    Raises:
        MaseError: when all designs changed since they were placed and routed.
    """
    from mase_hw.errors import MaseError
    from tests.bench.clock_fit import fit_units, left_out

    found = list(left_out())
    if not found:
        raise MaseError(
            "no clock rate of these units is known: python -m tests.bench.refit measures"
        )
    far = max(found, key=lambda item: abs(item.error))
    median = statistics.median(abs(item.error) for item in found)
    within = sum(abs(item.error) <= CLOCK_ERROR for item in found)
    yield Row(
        f"predicted against routed clock, {len(found)} of {len(fit_units())} units and chains, "
        "each left out of the fit",
        f"median error {median:.1%}, worst {far.error:+.1%} ({far.name}); {within} within",
        f"within {CLOCK_ERROR:.0%}",
        within == len(found),
    )
    for item in found:
        yield Row(
            f"{item.name}: predicted",
            f"{item.predicted_mhz:.0f} MHz for {item.measured_mhz:.1f} ({item.error:+.1%})",
        )


def cycle_rows(folder: Path, seeds: int) -> Iterator[Row]:
    """Compare simulated cycles of the networks of the group `branches` with predictions."""
    from tests.bench.groups.branches import prepare
    from tests.bench.groups.cells import CHEAP, QUICK, cycles

    for name in CHEAP if seeds == SEEDS else QUICK:
        yield from cycles(prepare(name, folder))


def build_rows(folder: Path, seeds: int) -> Iterator[Row]:
    """Time cold builds of a simulation, and its cycles per second."""
    from tests.bench.groups.flow import cold_build, emit_all, engine_speeds, jet_tagger

    projects = emit_all(jet_tagger(), folder / "build")
    yield from cold_build(projects)
    yield from engine_speeds(projects, quick=seeds < SEEDS)


def clock_row(
    name: str,
    project: Project,
    seeds: int,
    bar_mhz: float | None,
    *,
    rip_up: bool,
    clock_mhz: float | None = None,
) -> tuple[Row, RouteReport]:
    """Place and route a project that was checked."""
    from mase_hw.hardware.route import route

    report = route(
        project.folder, TARGET, device=DEVICE, speed=SPEED, seeds=seeds, rip_up=rip_up,
        clock_mhz=clock_mhz,
    )  # fmt: skip
    rates = [run.fmax_mhz for run in report.runs]
    used = ", ".join(
        f"{report.median.used[kind][0]:,} {kind}" for kind in ("LUT", "FF", "DSP", "BRAM")
    )
    path = report.median.path
    row = Row(
        f"{name}: clock",
        f"{report.fmax_mhz:.1f} MHz ({rates[0]:.1f} to {rates[-1]:.1f}, {seeds} seeds; "
        f"predicted {predicted_mhz(project):.0f}); {used}; "
        f"{path.logic_ns:.1f} ns logic, {path.routing_ns:.1f} ns routing: {path}",
        f">= {bar_mhz:g} MHz" if bar_mhz else "",
        report.fmax_mhz >= bar_mhz if bar_mhz else None,
    )
    return row, report


def predicted_mhz(project: Project) -> float:
    """Return the clock rate that `mase-hw estimate` says of a project."""
    from mase_hw.hardware.estimate import estimate_nodes

    clock = estimate_nodes(project.mg).clock
    assert clock is not None
    return clock.mhz


def emit_network(name: str, folder: Path) -> Project:
    """Write a registered network within its budget of multipliers."""
    from mase_hw.api import emit_verilog
    from mase_hw.graph import trace
    from mase_hw.models import models

    model = models()[name]
    trained = model.load()
    graph = trace(trained.module, trained.example_inputs, name=re.sub(r"\W", "_", name))
    return emit_verilog(
        graph,
        output=folder / name,
        config=model.config,
        parallelism="auto",
        multipliers=NETWORKS[name][1],
    )


def perceptron(
    parallelism: int | Mapping[str, object], folder: Path, device: str = "generic"
) -> Project:
    """Write the perceptron, and check its bits."""
    from mase_hw.api import emit_verilog
    from tests.bench.groups.flow import jet_tagger

    return checked(
        emit_verilog(jet_tagger(), output=folder, parallelism=parallelism, device=device)
    )
