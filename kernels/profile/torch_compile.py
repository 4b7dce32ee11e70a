"""Does `torch.compile` help: first call, steady state, break-even, and why where it does not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from mase_hw.kernels.profile._measure import check_device, interleaved, operators_run
from mase_hw.kernels.profile._models import Subject, load_subject
from mase_hw.kernels.profile._report import Report, Table, new_figure, setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)
PROFILED_CALLS = 3
# What a compiler hands to the same library as eager mode does.
_MATRIX_OPERATORS = ("mm", "bmm", "addmm", "baddbmm", "linear", "convolution", "attention")
COLUMNS = (
    "batch",
    "eager_ms",
    "eager_spread_ms",
    "compiled_ms",
    "compiled_spread_ms",
    "speedup",
    "first_call_s",
    "break_even_calls",
    "matrix_share",
    "max_difference",
)


def profile_torch_compile(
    model: str,
    device: str = "cpu",
    batch_sizes: Sequence[int] = BATCH_SIZES,
    length: int = 64,
    rounds: int = 9,
) -> Report:
    """Measure eager against compiled calls of `model`.

    Every batch size is compiled from nothing, compiler caches off. Results are compared with eager
    mode's before any time is reported.

    Args:
        model: see `load_subject`.
        device: `cpu` or `cuda`.
        batch_sizes: batches to measure.
        length: tokens per sequence for language models.
        rounds: measurements per figure.

    Raises:
        ConfigError: for an unknown device.
        DataError: when the model cannot be loaded.
    """
    target = check_device(device)
    subject = load_subject(model, target, length)
    rows = [_measure(subject, target, batch, rounds) for batch in batch_sizes]
    table = Table(
        "torch_compile", f"{model}: eager against torch.compile on {device}", COLUMNS, rows
    )
    graphs = _graphs(subject, batch_sizes)
    notes = (*_verdicts(table), *graphs)
    command = f"mase-hw profile torch-compile {model} --device {device}"
    return Report(
        "torch_compile",
        (table,),
        notes,
        lambda: _draw(table, model),
        setting(command, target),
    )


def _measure(
    subject: Subject, device: torch.device, batch: int, rounds: int
) -> tuple[float | None, ...]:
    eager = subject.call(batch)
    expected = eager()
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        compiled = subject.call(batch, torch.compile(subject.module, dynamic=False))
        start = time.perf_counter()
        result = compiled()
        if device.type == "cuda":
            torch.cuda.synchronize()
        first_call_s = time.perf_counter() - start
    difference = float((result - expected).abs().max())
    times = interleaved({"eager": eager, "compiled": compiled}, rounds)
    saved_s = times["eager"].median_s - times["compiled"].median_s
    extra_s = first_call_s - times["eager"].median_s
    # A gain within the spread of the measurement is no gain to divide by.
    gains = saved_s > max(timing.spread_s for timing in times.values())
    return (
        batch,
        times["eager"].median_s * 1e3,
        times["eager"].spread_s * 1e3,
        times["compiled"].median_s * 1e3,
        times["compiled"].spread_s * 1e3,
        times["eager"].median_s / times["compiled"].median_s,
        first_call_s,
        extra_s / saved_s if gains else None,
        _matrix_share(subject, device, batch),
        difference,
    )


def _matrix_share(subject: Subject, device: torch.device, batch: int) -> float:
    """Return the part of eager time inside matrix products, which compiling leaves as it is."""
    call = subject.call(batch)

    def run() -> None:
        for _ in range(PROFILED_CALLS):
            call()

    times = operators_run(run, device)
    total = sum(times.values())
    inside = sum(
        spent
        for name, spent in times.items()
        if any(word in name.rsplit("::", 1)[-1] for word in _MATRIX_OPERATORS)
    )
    return inside / total if total else 0.0


def _graphs(subject: Subject, batch_sizes: Sequence[int]) -> tuple[str, ...]:
    """Count graphs, breaks with their reasons, and recompilations over the batch sizes."""
    torch._dynamo.reset()
    inputs: Any = subject.inputs(batch_sizes[0], subject.length)
    explain = torch._dynamo.explain(subject.module)
    with torch.no_grad():
        explanation = explain(**inputs) if isinstance(inputs, dict) else explain(*inputs)
    reasons = sorted({str(each.reason).splitlines()[0] for each in explanation.break_reasons})
    torch._dynamo.reset()
    graphs = _CountGraphs()
    counting = torch.compile(subject.module, backend=graphs)
    recompiled = []
    for batch in batch_sizes:
        before = graphs.count
        subject.call(batch, counting)()
        if graphs.count > before and batch != batch_sizes[0]:
            recompiled.append(str(batch))
    torch._dynamo.reset()
    sizes = ", ".join(recompiled) or "none"
    return (
        f"graphs: {explanation.graph_count}, graph breaks: {explanation.graph_break_count}"
        + "".join(f"; break: {reason}" for reason in reasons),
        f"recompilations of one compiled function over batch {list(batch_sizes)}: "
        f"{len(recompiled)} (at batch {sizes})",
    )


class _CountGraphs:
    """A compiler backend that compiles nothing and counts what it is asked for."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        self.count += 1
        return graph.forward


def _verdicts(table: Table) -> tuple[str, ...]:
    """Say for each batch whether compiling pays, and why not where it does not."""
    notes = []
    for row in table.rows:
        cells: dict[str, Any] = dict(zip(table.columns, row, strict=True))
        head = f"batch {cells['batch']}: "
        share = (
            f"{cells['matrix_share']:.0%} of eager time is matrix products, "
            "which compiling leaves to the same library"
        )
        spread_ms = max(cells["eager_spread_ms"], cells["compiled_spread_ms"])
        if cells["speedup"] <= 1:
            notes.append(f"{head}compiling loses (speed {cells['speedup']:.2f} x); {share}")
        elif cells["break_even_calls"] is None:
            notes.append(
                f"{head}no gain beyond the spread of the measurement "
                f"({cells['speedup']:.2f} x, spread {spread_ms:.1f} ms); {share}"
            )
        else:
            notes.append(
                f"{head}{cells['speedup']:.2f} x, pays after "
                f"{cells['break_even_calls']:,.0f} calls; {share}"
            )
    return tuple(notes)


def _draw(table: Table, model: str) -> Figure:
    figure, (left, right) = new_figure(2)
    batches = table.column("batch")
    for kind, color in (("eager", "tab:gray"), ("compiled", "tab:blue")):
        left.errorbar(
            batches,
            table.column(f"{kind}_ms"),
            yerr=table.column(f"{kind}_spread_ms"),
            marker="o",
            capsize=3,
            color=color,
            label=kind,
        )
    left.set(
        xscale="log", yscale="log", xlabel="batch size", ylabel="median of a call, ms", title=model
    )
    left.set_xticks(batches, [str(batch) for batch in batches])
    left.minorticks_off()
    left.legend(frameon=False)
    calls = table.column("break_even_calls")
    labels = [str(batch) for batch in batches]
    right.bar(labels, [count or 0 for count in calls], color="tab:blue")
    for index, count in enumerate(calls):
        text = "no gain" if count is None else f"{count:,.0f}"
        right.annotate(
            text,
            (index, count or 0),
            ha="center",
            va="bottom",
            textcoords="offset points",
            xytext=(0, 2),
        )
    right.set(xlabel="batch size", ylabel="calls", title="calls until compiling has paid")
    return figure
