"""`simulate`: stream inputs through an emitted project and compare every element, bit for bit.

The interval of a design whose layers share the port of an external memory.

Layers take turns at the port, so inferences end in bunches: some early, the next ones late, over
and over. Before, buffers fill; the last inferences are early, as nothing behind them asks for
words. An interval therefore lies between two ends that are equally late, one in each of two windows
in the middle of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mase_hw._kinds import Record
from mase_hw._results import check_result, inputs_kept, result_file
from mase_hw._stages import stage
from mase_hw.emit.design import Design, DesignSummary, Stream
from mase_hw.emit.manifest import Manifest
from mase_hw.errors import SimulationError
from mase_hw.graph.agreement import CHANNEL, ModelAgreement, check_agreement, least
from mase_hw.registry import nearest
from mase_hw.sim.agreement import rtl_agreement
from mase_hw.sim.checker import Mismatch, StreamCheck, check_stream, first_of
from mase_hw.sim.cocotb_engine import run_cocotb
from mase_hw.sim.compiling import BuildError
from mase_hw.sim.engine import STALLED, Engine, Recording, RunRequest, RunResult, Violation
from mase_hw.sim.inputs import encode_values, random_codes, read_inputs
from mase_hw.sim.layout import StreamLayout
from mase_hw.sim.memory import PORT, MemoryState, memory_model
from mase_hw.sim.native_engine import WAVES, run_native
from mase_hw.sim.queues import QueueMark, queue_marks, queue_states, queue_streams
from mase_hw.sim.tools import find_cocotb, find_compiler, find_verilator

ENGINES: Mapping[str, Engine] = {"native": run_native, "cocotb": run_cocotb}
DEFAULT_SAMPLES = 100
# Of fewer, the interval is not judged: the pipeline may not be full.
STEADY_INFERENCES = 8
# Elements recorded at most when a failing run is repeated with every stream probed.
LOCALISE_ELEMENTS = 20_000_000


class Reference(Protocol):
    """The integer reference of a project."""

    def __call__(self, inputs: list[Tensor], nodes: Sequence[str], /) -> Mapping[str, Tensor]:
        """Return the int64 codes of `nodes`, given the codes `[inferences, *shape]` of inputs."""
        ...


@dataclass(frozen=True)
class SimulationReport:
    """What a simulation showed.

    Attributes:
        bit_exact: every element equals the reference, and no stream rule was broken.
        elements: elements compared, outputs and probes together.
        mismatches: elements that differ, never came, or came too much.
        inferences: inferences streamed.
        cycles: cycles simulated after reset.
        interval_cycles: cycles per inference once the pipeline is full; None for one inference.
        predicted_interval_cycles: the prediction, for streams that never pause.
        latency_cycles: from the first input beat to the last output beat of the first inference.
        predicted_latency_cycles: the prediction.
        engine: `native` or `cocotb`.
        seconds: wall seconds of the simulation itself, building not included.
        cycles_per_second: `cycles / seconds`.
        stall: probability that a port paused in a cycle.
        stalled: which ports paused.
        seed: seed of the inputs, the pauses and the initial register bits.
        as_predicted: whether latency, and with enough inferences the interval, are as predicted:
            all of the second half ends in the predicted cycle, or the one before or behind it, or
            no inference later than that and all of that half within an interval of it;
            None where ports pause, the memory is another than was predicted with, or the design
            is so large that its latency was not computed beat by beat.
        first_mismatch: the first layer, in topological order, that differs, and where.
        violations: stream rules that ports of the design broke.
        waveform: path of the recorded waveform.
        resets: resets in the run.
        followed: resets after which whole inferences came, all compared.
        peak_kib: the most memory that the simulator held (native engine); 0 where it is not known.
        queues: how full each queue became, when that was asked for.
        memory: what the port of the external memory did, where there is one.
        agreement: how far the outputs are from the float model: those of the RTL, on the first real
            inputs that were given, or what emission measured on its examples.
        min_sqnr: the decibels that were asked for, and
        gated: whose: `channel` or `tensor`.
        outputs: codes of each output by stream name, the inferences along the batch dimension.
        values: the reals these codes stand for.
    """

    bit_exact: bool
    elements: int
    mismatches: int
    inferences: int
    cycles: int
    interval_cycles: int | float | None
    predicted_interval_cycles: int
    latency_cycles: int | None
    predicted_latency_cycles: int
    engine: str
    seconds: float
    cycles_per_second: float
    stall: float
    seed: int
    stalled: str = "both"
    as_predicted: bool | None = None
    first_mismatch: Mismatch | None = None
    violations: tuple[Violation, ...] = ()
    waveform: Path | None = None
    resets: int = 0
    followed: int = 0
    peak_kib: int = 0
    queues: tuple[QueueMark, ...] = ()
    memory: MemoryState | None = None
    agreement: ModelAgreement | None = None
    min_sqnr: float | None = None
    gated: str = CHANNEL
    outputs: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    values: Mapping[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def is_right(self) -> bool:
        """Whether the hardware does what was said of it: bit-exact, in the predicted cycles.

        And, where that was asked for, near enough to the float model.
        """
        return self.bit_exact and self.as_predicted is not False and self.agrees is not False

    @property
    def agrees(self) -> bool | None:
        """Whether all outputs have the decibels asked for; None where none were, or none is real.

        Outputs that were not compared do not have them.
        """
        if self.min_sqnr is None:
            return None
        if self.agreement is None:
            return False
        ratio = least(self.agreement.outputs.values(), self.gated)
        return None if ratio is None else ratio >= self.min_sqnr

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serialisable description without the outputs."""
        skipped = (
            "outputs", "values", "first_mismatch", "violations", "waveform", "queues", "memory",
            "agreement",
        )  # fmt: skip
        entry = {name: item for name, item in vars(self).items() if name not in skipped}
        first = self.first_mismatch
        return {
            **entry,
            "first_mismatch": first.to_dict() if first else None,
            "violations": [str(item) for item in self.violations],
            "waveform": str(self.waveform) if self.waveform else None,
            "queues": [vars(mark) for mark in self.queues],
            "memory": vars(self.memory) if self.memory else None,
            "agreement": self.agreement.to_dict() if self.agreement else None,
        }

    def save_outputs(self, path: Path) -> None:
        """Write `codes` and `values` of the first output, `codes_1`, ... of further ones."""
        arrays: Record = {}
        for number, name in enumerate(self.outputs):
            suffix = f"_{number}" if number else ""
            arrays[f"codes{suffix}"] = self.outputs[name].numpy()
            arrays[f"values{suffix}"] = self.values[name].numpy()
        with result_file(path) as whole, whole.open("wb") as file:
            np.savez(file, **arrays)


def simulate(
    project: Path | str,
    inputs: object = None,
    *,
    samples: int | None = None,
    engine: str = "native",
    stall: float = 0.0,
    stalled: str = "both",
    seed: int = 0,
    waves: bool = False,
    probes: Sequence[str] = (),
    queues: bool = False,
    outputs: Path | str | None = None,
    memory: Mapping[str, object] | None = None,
    resets: int = 0,
    reset_memory: bool = True,
    repeats: int = 1,
    checks: bool | None = None,
    reference: Reference | None = None,
    min_sqnr: float | None = None,
    agreement: str = CHANNEL,
) -> SimulationReport:
    """Stream inputs through an emitted project and compare its outputs with the reference.

    Args:
        project: the emitted folder.
        inputs: real values, as `mase_hw.sim.inputs.encode_inputs` takes them; without them random
            codes over the whole range of the input's format.
        samples: number of random inferences (100), or how many of `inputs` to use.
        engine: `native` streams whole data sets; `cocotb` is for protocol and debugging.
        stall: probability in [0, 1) that a port pauses in a cycle.
        stalled: which ports pause: `inputs` are idle then, `outputs` press back, or `both`.
        seed: seeds everything random.
        waves: write `sim/waves.vcd` in the project.
        probes: names of nodes or streams inside the design to compare as well.
        queues: record how full each queue becomes.
        outputs: where to save `codes` and `values` of the outputs (`.npz`).
        memory: how the external memory differs from what the prediction assumes, as
            `mase_hw.sim.memory.MemoryModel` takes it (`{"latency_cycles": 200}`).
        resets: how often the design is reset, for one cycle at random moments of up to three
            intervals behind the latency; the inputs begin again, and what comes must be right.
        reset_memory: whether the external memory is reset with it, as its rule is.
        repeats: how often all inputs are streamed (native engine). What comes later must equal
            what came first, and memory does not grow with it.
        checks: whether the rules of all streams inside, and the properties of inner modules, are
            checked in every cycle; by default in the cocotb engine.
        reference: the integer reference; by default rebuilt from the project's saved graph.
        min_sqnr: the least agreement with the float model, in decibels, of an output that is right.
        agreement: whose decibels these are: `channel`, the worst channel's about its mean, or
            `tensor`, the whole tensor's of raw power, see `mase_hw.graph.agreement`.

    Raises:
        SimulationError: for wrong inputs or options, and when the design hangs.
        ToolError: when Verilator, cocotb or a compiler is missing.
    """
    folder = Path(project)
    summary = DesignSummary.load(folder)
    _check_options(engine, stall, stalled, seed)
    check_agreement(agreement)
    with inputs_kept([Path(inputs)] if isinstance(inputs, str | Path) else []):
        for path in [*([folder / WAVES] if waves else []), *([Path(outputs)] if outputs else [])]:
            check_result(path)
    _check_life(engine, summary, resets, reset_memory, repeats)
    inside = (*probes, *queue_streams(summary)) if queues else probes
    chosen = choose_probes(summary, inside)
    model_of_memory = memory_model(folder, summary, memory)
    values = None if inputs is None else _given(summary, inputs, samples)
    codes = (
        encode_values(summary.inputs, values)
        if values is not None
        else random_codes(summary.inputs, DEFAULT_SAMPLES if samples is None else samples, seed)
    )
    stage("the integer reference")
    model = reference if reference is not None else load_reference(folder)
    expected = reference_codes(model, codes, (*summary.outputs, *chosen))
    request = make_request(folder, summary, codes, expected, seed, stall, chosen, waves)
    request = replace(
        request, stalled=stalled, memory=model_of_memory, repeats=repeats,
        resets=reset_moments(summary, resets, seed), reset_memory=reset_memory,
        checks=engine == "cocotb" if checks is None else checks,
    )  # fmt: skip
    try:
        stage("simulating")
        result = ENGINES[engine](request)
    except BuildError as error:
        raise SimulationError(_explain_build(folder, error)) from error
    compared = _check(request, result, expected)
    result = replace(result, violations=result.violations + wrong_before(request, result))
    if any(check.mismatches for check in compared):
        compared = _localise(request, result, compared, codes, model, ENGINES[engine])
    if result.hung and (not _all_accepted(request, result) or _explain_memory(result.memory)):
        raise SimulationError(_explain_hang(request, result, first_of(compared), ENGINES[engine]))
    report = _report(request, result, compared, engine)
    if resets:
        runs = [*result.before[1:], result.streams]
        followed = sum(all(map(len, _came(summary, run))) for run in runs)
        report = replace(report, resets=resets, followed=followed)
    if not (stall or memory or request.summary.sketched):
        report = replace(report, as_predicted=_as_predicted(request, report, result))
    measured = summary.agreement
    if values is not None and reference is None:
        stage("the float model")
        measured = rtl_agreement(folder, values, _counted(summary, report.values)) or measured
    report = replace(report, agreement=measured, min_sqnr=min_sqnr, gated=agreement)
    if outputs is not None:
        report.save_outputs(Path(outputs))
    return report


def _explain_build(folder: Path, error: BuildError) -> str:
    """Return why a project does not build; where it was edited, without the compiler's words."""
    manifest = Manifest.load(folder)
    changed = manifest.changed(folder) if manifest else []
    if not changed:
        return str(error)
    lines = [
        line
        for line in str(error).splitlines()
        if " error: " not in line and "Exiting due to" not in line
    ]
    return "\n".join([f"{', '.join(changed)} changed since emission; {lines[0]}", *lines[1:]])


def load_reference(folder: Path) -> Reference:
    """Return the integer reference of an emitted project, from its saved graph."""
    loader: Callable[[Path], Reference] = import_module("mase_hw.emit.project").load_reference
    return loader(folder)


def make_request(
    folder: Path,
    summary: DesignSummary,
    codes: Sequence[Tensor],
    expected: Mapping[str, Tensor],
    seed: int = 0,
    stall: float = 0.0,
    probes: tuple[Stream, ...] = (),
    waves: bool = False,
) -> RunRequest:
    """Return the run of input `codes`, whose padding lanes are driven with random bits."""
    garbage = np.random.default_rng(seed)
    beats = tuple(
        StreamLayout(stream).pack(item, garbage)
        for stream, item in zip(summary.inputs, codes, strict=True)
    )
    wanted = {
        stream.name: StreamLayout(stream).pack(expected[stream.name]) for stream in summary.outputs
    }
    return RunRequest(
        folder.resolve(), summary, beats, len(codes[0]), wanted, seed, stall, probes, waves
    )


def check_engine(engine: str) -> None:
    """Raise unless an engine of that name, and the tools it needs, are here.

    Raises:
        SimulationError: for an unknown engine.
        ToolError: when Verilator, cocotb or a compiler is missing.
    """
    if engine not in ENGINES:
        raise SimulationError(f"engine is {engine!r}; allowed: {', '.join(ENGINES)}")
    find_verilator()
    find_compiler()
    if engine == "cocotb":
        find_cocotb()


def _check_options(engine: str, stall: float, stalled: str, seed: int) -> None:
    check_engine(engine)
    if not 0.0 <= stall < 1.0:
        raise SimulationError(f"stall is {stall}; allowed: a probability from 0 to below 1")
    if stalled not in STALLED:
        raise SimulationError(f"stalled is {stalled!r}; allowed: {', '.join(STALLED)}")
    if not 0 <= seed < 2**31:
        raise SimulationError(f"seed is {seed}; allowed: an integer from 0 to {2**31 - 1}")


def _check_life(
    engine: str, summary: DesignSummary, resets: int, reset_memory: bool, repeats: int
) -> None:
    if resets < 0 or repeats < 1:
        what, least = (f"resets is {resets}", 0) if resets < 0 else (f"repeats is {repeats}", 1)
        raise SimulationError(f"{what}; allowed: a number from {least}")
    if repeats > 1 and engine != "native":
        raise SimulationError(f"repeats needs the native engine; engine is {engine}")
    if repeats > 1 and summary.keeps_state:
        raise SimulationError(
            "repeats needs independent inferences; this design keeps state between them: give it a "
            "longer sequence"
        )
    if repeats > 1 and resets:
        raise SimulationError("resets and repeats cannot be combined in one run")
    if not reset_memory and summary.external is None:
        raise SimulationError("this design has no external memory that could miss a reset")


def reset_moments(summary: DesignSummary, count: int, seed: int) -> tuple[int, ...]:
    """Return for how many cycles each run goes on before a reset.

    At most three intervals behind the latency: some inferences are in the middle, or done.
    """
    longest = summary.latency_cycles + 3 * summary.interval_cycles
    pauses: list[int] = np.random.default_rng(seed).integers(1, longest + 1, count).tolist()
    return tuple(pauses)


def _came(summary: DesignSummary, run: Mapping[str, Recording]) -> list[range]:
    """Return the whole inferences that came of each output."""
    return [range(len(run[item.name].cycles) // item.spec.beats) for item in summary.outputs]


def wrong_before(request: RunRequest, result: RunResult) -> tuple[Violation, ...]:
    """Differences from the reference before a reset."""
    violations = []
    for number, run in enumerate(result.before):
        for stream in request.summary.outputs:
            recording, wanted = run[stream.name], request.expected[stream.name]
            count = min(len(recording.beats), len(wanted))
            mask = np.tile(StreamLayout(stream).mask(), (-(-count // stream.spec.beats), 1))
            wrong = (recording.beats[:count] ^ wanted[:count]) & mask[:count]
            rows = np.flatnonzero(wrong.any(axis=1)).tolist()
            if len(recording.beats) > len(wanted):
                rows.append(len(wanted))
            if rows:
                what = f"what comes after reset {number} is wrong"
                cycle = int(recording.cycles[rows[0]])
                violations.append(Violation(stream.name, what, cycle, rows[0]))
    return tuple(violations)


def choose_probes(summary: DesignSummary, names: Sequence[str]) -> tuple[Stream, ...]:
    """Return the streams inside that are called so, or are of nodes that are.

    Raises:
        SimulationError: for a name that none has.
    """
    ports = {stream.name for stream in summary.inputs}
    outputs = {stream.name for stream in summary.outputs}
    inside = [stream for stream in summary.streams if stream.name not in ports]
    for name in names:
        if not any(name in (stream.name, stream.node) for stream in inside):
            legal = dict.fromkeys(stream.node for stream in inside)
            raise SimulationError(f"no node to probe is called {name!r}; {nearest(name, legal)}")
    return tuple(
        item
        for item in inside
        if item.name not in outputs and (item.name in names or item.node in names)
    )


def _given(summary: DesignSummary, inputs: object, samples: int | None) -> list[Tensor]:
    """Return real inputs, the first `samples` of them."""
    values = read_inputs(summary.inputs, inputs)
    if samples is not None and not 1 <= samples <= len(values[0]):
        raise SimulationError(f"samples is {samples}; allowed: 1 to {len(values[0])}, the inputs")
    return [item[:samples] for item in values]


def reference_codes(
    reference: Reference, codes: list[Tensor], streams: Sequence[Stream]
) -> dict[str, Tensor]:
    """Return the codes `[inferences, *shape]` of each stream, by stream name."""
    nodes = list(dict.fromkeys(stream.node for stream in streams))
    tensors = reference(codes, nodes)
    return {
        stream.name: tensors[stream.node].reshape(len(codes[0]), *stream.spec.shape)
        for stream in streams
        if stream.node in tensors
    }


def _check(
    request: RunRequest, result: RunResult, expected: Mapping[str, Tensor]
) -> list[StreamCheck]:
    """Check probes, which come in topological order, and then outputs."""
    where = {item.node: item.where for item in request.summary.nodes}
    return [
        check_stream(
            stream,
            expected[stream.name],
            result.streams[stream.name],
            seed=request.seed,
            waveform=result.waveform,
            where=where.get(stream.node, ""),
        )
        for stream in (*request.probes, *request.summary.outputs)
        if stream.name in expected
    ]


def _localise(
    request: RunRequest,
    result: RunResult,
    checks: list[StreamCheck],
    codes: list[Tensor],
    reference: Reference,
    engine: Engine,
) -> list[StreamCheck]:
    """Repeat a failing run with every stream probed; put the first layer that differs first.

    The repeated run ends with the failing inference and has the same seed, so that every beat up
    to the failure moves in the same cycle. When that is too much to record, the failing inference
    runs alone, unless it depends on those before.
    """
    first = first_of(checks)
    streams = choose_probes(request.summary, [item.node for item in request.summary.streams])
    if first is None or not streams:
        return checks
    last = min(first.inference, request.inferences - 1) + 1
    start = 0
    if last * sum(stream.spec.elements for stream in streams) > LOCALISE_ELEMENTS:
        if request.summary.keeps_state:
            return checks
        start = last - 1
    part = [item[start:last] for item in codes]
    expected = reference_codes(reference, part, (*request.summary.outputs, *streams))
    beats = tuple(
        item[start * stream.spec.beats : last * stream.spec.beats]
        for item, stream in zip(request.inputs, request.summary.inputs, strict=True)
    )
    again = replace(
        request, inputs=beats, inferences=last - start, expected={}, probes=streams, waves=False
    )
    difference = first_of(_check(again, engine(again), expected))
    if difference is None:
        return checks
    if start:
        difference = replace(difference, inference=difference.inference + start, cycle=None)
    difference = replace(difference, waveform=str(result.waveform) if result.waveform else None)
    culprit = next(index for index, check in enumerate(checks) if check.first is not None)
    return [
        replace(check, first=difference) if index == culprit else check
        for index, check in enumerate(checks)
    ]


def _all_accepted(request: RunRequest, result: RunResult) -> bool:
    return all(
        len(result.streams[stream.name].cycles) == request.inferences * stream.spec.beats
        for stream in request.summary.inputs
    )


def _explain_hang(
    request: RunRequest, result: RunResult, mismatch: Mismatch | None, engine: Engine
) -> str:
    """Say which ports wait, and, from the same run with every stream probed, where inside."""
    quiet, summary = request.quiet_limit, request.summary
    lines = [f"the design hangs: no beat moved for {quiet} cycles before cycle {result.cycles}"]
    lines += [f"  {item}" for item in result.violations]
    for stream in summary.inputs:
        recording, total = result.streams[stream.name], request.inferences * stream.spec.beats
        if recording.valid:
            lines.append(
                f"  {stream.name} waits for ready (beat {len(recording.cycles)} of {total})"
            )
    for stream in summary.outputs:
        recording, total = result.streams[stream.name], request.inferences * stream.spec.beats
        if len(recording.cycles) < total:
            lines.append(
                f"  {stream.name} has no valid beat (beat {len(recording.cycles)} of {total})"
            )
    lines += _explain_memory(result.memory)
    streams = choose_probes(summary, [item.node for item in summary.streams])
    if streams:
        again = engine(replace(request, probes=streams, waves=False))
        lines += [f"  queue {line}" for line in queue_states(summary, again)]
        for stream in streams:
            state = again.streams[stream.name]
            if state.valid and not state.ready:
                lines.append(f"  inside, {stream.name} of {stream.node} is valid but not accepted")
            elif state.ready and not state.valid:
                lines.append(f"  inside, {stream.name} of {stream.node} is awaited but not valid")
    if mismatch is not None and mismatch.got is not None:
        lines.append(f"  {mismatch}")
    if result.waveform:
        lines.append(f"  waveform {result.waveform}")
    return "\n".join(lines)


def _explain_memory(state: MemoryState | None) -> list[str]:
    """Say whether the memory is what everything waits for."""
    if state is None or not (state.waiting or state.asking):
        return []
    what = "does not accept a burst" if state.asking else "does not answer"
    return [
        f"  the memory behind {PORT} {what}: {state.waiting} of {state.bursts} bursts wait for "
        f"beats, {state.beats} beats came"
    ]


def judged_from(summary: DesignSummary | Design) -> int:
    """Return the number of inferences from which on an interval is judged."""
    return STEADY_INFERENCES if summary.external is None else LEAST_INFERENCES


def _as_predicted(request: RunRequest, report: SimulationReport, result: RunResult) -> bool | None:
    """True if the cycles are as predicted; None where no inference came out.

    While the buffers inside fill, inferences may end early, some of them more than others. Layers
    that share a port take turns, for which the first inference may wait, less than an interval.
    """
    interval, ended = report.predicted_interval_cycles, _ended(request, result)
    if report.latency_cycles is None:
        return None
    waited = abs(report.latency_cycles - report.predicted_latency_cycles)
    if request.summary.external is not None:
        return waited < interval and (
            len(ended) < judged_from(request.summary)
            or keep_interval(ended, report.latency_cycles, interval)
        )
    if report.interval_cycles is None or report.inferences < judged_from(request.summary):
        return waited == 0
    # Cycles behind the first inference and its intervals.
    late = ended - ended[0] - interval * np.arange(len(ended))
    drift = int(late[-1] - late[len(ended) // 2])
    return waited == 0 and (abs(drift) <= 1 or (int(late.max()) <= 1 and abs(drift) < interval))


def _counted(summary: DesignSummary, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the outputs with inferences first."""
    return {
        stream.name: values[stream.name].movedim(stream.batch_dim or 0, 0)
        for stream in summary.outputs
    }


def _report(
    request: RunRequest, result: RunResult, checks: Sequence[StreamCheck], engine: str
) -> SimulationReport:
    summary = request.summary
    mismatches = sum(check.mismatches for check in checks)
    outputs, values = {}, {}
    for stream, check in zip(summary.outputs, checks[-len(summary.outputs) :], strict=True):
        shape, dim = stream.several(request.inferences), stream.batch_dim or 0
        outputs[stream.name] = check.codes.reshape(shape).movedim(0, dim)
        decoded = stream.spec.quantized.decode(check.codes.reshape(stream.rows(len(check.codes))))
        values[stream.name] = decoded.reshape(shape).movedim(0, dim)
    latency, interval = measured_cycles(request, result)
    return SimulationReport(
        bit_exact=mismatches == 0 and not result.violations,
        elements=sum(check.elements for check in checks),
        mismatches=mismatches,
        inferences=request.inferences,
        cycles=result.cycles,
        interval_cycles=interval,
        predicted_interval_cycles=summary.interval_cycles,
        latency_cycles=latency,
        predicted_latency_cycles=summary.latency_cycles,
        engine=engine,
        seconds=result.seconds,
        cycles_per_second=result.cycles / max(result.seconds, 1e-9),
        stall=request.stall,
        stalled=request.stalled,
        seed=request.seed,
        first_mismatch=first_of(checks),
        violations=result.violations,
        waveform=result.waveform,
        peak_kib=result.peak_kib,
        queues=queue_marks(summary, result),
        memory=result.memory,
        outputs=outputs,
        values=values,
    )


def _ended(request: RunRequest, result: RunResult) -> NDArray[np.int64]:
    """Return the cycle in which each complete inference ended."""
    ends = []
    for stream in request.summary.outputs:
        last = result.streams[stream.name].cycles[stream.spec.beats - 1 :: stream.spec.beats]
        ends.append(last[: request.inferences])
    complete = min(map(len, ends))
    ended: NDArray[np.int64] = np.max(np.stack([item[:complete] for item in ends]), axis=0)
    return ended


def measured_cycles(
    request: RunRequest, result: RunResult
) -> tuple[int | None, int | float | None]:
    """Return (latency, interval) of what `request.summary` names, from the cycles of its beats."""
    starts = [result.streams[stream.name].cycles[:1] for stream in request.summary.inputs]
    ended = _ended(request, result)
    complete = len(ended)
    if complete == 0 or any(len(start) == 0 for start in starts):
        return None, None
    latency = int(ended[0]) - min(int(start[0]) for start in starts)
    if complete == 1:
        return latency, None
    if request.summary.external is not None:
        steady = between_bunches(ended, latency)
        if steady is not None:
            return latency, int(steady) if steady.is_integer() else round(steady, 4)
    # The second half of the run: the pipeline is full.
    middle = complete // 2 if complete > 2 else 0
    cycles, count = int(ended[-1] - ended[middle]), complete - 1 - middle
    return latency, cycles // count if cycles % count == 0 else round(cycles / count, 4)


# From here on the windows are longer than buffers take to fill.
LEAST_INFERENCES = 32
Ends = NDArray[np.int64]


def between_bunches(ended: Ends, latency_cycles: int) -> float | None:
    """Return the cycles between ends of inferences; None where they are too few.

    Args:
        ended: the cycle in which each inference ended.
        latency_cycles: of the first one.
    """
    if len(ended) < LEAST_INFERENCES:
        return None
    mean = (ended[-1] - ended[0]) / (len(ended) - 1)
    late = ended - mean * np.arange(len(ended))
    first, second = (
        window[int(late[window].argmax())] for window in _windows(ended, latency_cycles)
    )
    return float((ended[second] - ended[first]) / (second - first))


def keep_interval(ended: Ends, latency_cycles: int, interval_cycles: int) -> bool:
    """True if inferences are not later, nor earlier, in one window than in the other."""
    late = ended - ended[0] - interval_cycles * np.arange(len(ended))
    first, second = (late[window] for window in _windows(ended, latency_cycles))
    drifts = first.max() - second.max(), first.min() - second.min()
    return all(abs(int(drift)) <= 1 for drift in drifts)


def _windows(ended: Ends, latency_cycles: int) -> tuple[Ends, Ends]:
    """Return the numbers of the inferences of two windows, before those that end undisturbed."""
    mean = max(1.0, float(ended[-1] - ended[0]) / (len(ended) - 1))
    end = len(ended) - min(len(ended) // 4, int(latency_cycles / mean) + 2)
    third = end // 3
    numbers = np.arange(end)
    return numbers[third : 2 * third], numbers[2 * third :]
