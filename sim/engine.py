"""What both engines take and give: a run of beats through a design, with the cycle of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from mase_hw.emit.design import DesignSummary, Stream
from mase_hw.sim.layout import Bytes, Integers
from mase_hw.sim.memory import MemoryModel, MemoryState

# Which ports a stall makes pause: idle inputs, back-pressure of the outputs, or both.
STALLED = ("both", "inputs", "outputs")


@dataclass(frozen=True)
class RunRequest:
    """One run.

    Attributes:
        project: the emitted folder.
        summary: its `design.json`.
        inputs: the beats of each input as bytes `[inferences * beats, bytes]`.
        expected: the beats of each output as bytes, by stream name; for the testbench's own check.
        inferences: how many inferences `inputs` hold.
        seed: seeds the stalls and the registers' initial bits.
        stall: probability that a port pauses in a cycle, over all; pauses come in phases.
        probes: internal streams to record.
        waves: write a waveform.
        memory: the memory behind the AXI4 port, where the design has one.
        stalled: which ports pause: a word of `STALLED`.
        resets: cycles of each run before a reset, from which everything begins again.
        reset_memory: whether a reset is the external memory's, too.
        repeats: how often all inputs are streamed; what comes is kept of the first pass alone.
        checks: whether the rules of the streams inside are checked, too.
    """

    project: Path
    summary: DesignSummary
    inputs: tuple[Bytes, ...]
    inferences: int
    expected: Mapping[str, Bytes] = field(default_factory=dict)
    seed: int = 0
    stall: float = 0.0
    probes: tuple[Stream, ...] = ()
    waves: bool = False
    memory: MemoryModel | None = None
    stalled: str = "both"
    resets: tuple[int, ...] = ()
    reset_memory: bool = True
    repeats: int = 1
    checks: bool = False

    @property
    def cycles(self) -> int:
        """Cycles that the run is predicted to take, about."""
        summary, further = self.summary, self.inferences * self.repeats - 1
        whole = summary.latency_cycles + further * summary.interval_cycles
        return int(whole / (1 - self.stall)) + sum(self.resets)

    @property
    def input_stall(self) -> float:
        """Probability that an input, or the external memory, pauses in a cycle."""
        return 0.0 if self.stalled == "outputs" else self.stall

    @property
    def output_stall(self) -> float:
        """Probability that an output pauses in a cycle."""
        return 0.0 if self.stalled == "inputs" else self.stall

    @property
    def longest_pause(self) -> int:
        """Cycles of the longest phase of pauses: what the design holds can leave meanwhile."""
        return 8 * self.summary.interval_cycles + self.summary.latency_cycles

    @property
    def quiet_limit(self) -> int:
        """Cycles in which no beat moves on any stream that mean a hang, as the testbench has it.

        At most 50 intervals, unless the latency is longer, and twice that in the testbench, which
        looks once in that time; an external memory may be slower than was predicted, and ports may
        pause for long. Beats of the memory count for as many cycles.
        """
        interval, latency = self.summary.interval_cycles, self.summary.latency_cycles
        usual = max(min(10 * interval + 2 * latency + 100, 50 * interval), interval + latency)
        if self.memory is not None:
            usual += 100 * interval + 1000
        if self.stall:
            usual += 4 * self.longest_pause
        return int(usual / (1.0 - self.stall))

    @property
    def drain(self) -> int:
        """Cycles for which the outputs are watched for surplus beats at the end."""
        return 2 * self.summary.interval_cycles + 16


@dataclass(frozen=True)
class Recording:
    """What one stream did.

    Attributes:
        beats: the beats that moved, as bytes `[count, bytes]`; empty for an input.
        cycles: the cycle in which each moved, 0 being the first after reset.
        valid: valid in the last cycle.
        ready: ready in the last cycle.
    """

    beats: Bytes
    cycles: Integers
    valid: bool
    ready: bool


@dataclass(frozen=True)
class Violation:
    """A stream rule that a port or a stream inside the design broke.

    Attributes:
        port: of the top, or what leaves an instance, with its node.
        rule: what happened.
        cycle: in which it did.
        beat: of a port: how many came before.
    """

    port: str
    rule: str
    cycle: int
    beat: int | None = None

    def __str__(self) -> str:
        beat = "" if self.beat is None else f"beat {self.beat}, "
        return f"{self.port}: {self.rule} ({beat}cycle {self.cycle})"


@dataclass(frozen=True)
class RunResult:
    """What an engine saw.

    Attributes:
        cycles: cycles simulated after reset.
        seconds: wall seconds of the simulation itself, building not included.
        hung: no beat moved for `quiet_limit` cycles.
        streams: every input, output and probe by name.
        violations: broken stream rules.
        waveform: the file, when one was asked for.
        memory: what the memory port did, where there is one.
        before: the streams of each run before a reset.
        peak_kib: the most memory that the simulator held; 0 where it is not known.
    """

    cycles: int
    seconds: float
    hung: bool
    streams: Mapping[str, Recording]
    violations: tuple[Violation, ...]
    waveform: Path | None
    memory: MemoryState | None = None
    before: tuple[Mapping[str, Recording], ...] = ()
    peak_kib: int = 0


def split_runs(recording: Recording, marks: Integers) -> list[Recording]:
    """Recording of a stream, split at each reset; `marks` say where runs begin."""
    edges = [0, *marks.tolist(), len(recording.cycles)]
    return [
        replace(recording, beats=recording.beats[start:end], cycles=recording.cycles[start:end])
        for start, end in pairwise(edges)
    ]


def runs_before(
    streams: Mapping[str, Sequence[Recording]],
) -> tuple[Mapping[str, Recording], ...]:
    """Return all streams of each run but the last one."""
    count = len(next(iter(streams.values()))) - 1
    return tuple({name: runs[place] for name, runs in streams.items()} for place in range(count))


class Engine(Protocol):
    """Runs a request: `run_native` or `run_cocotb`."""

    def __call__(self, request: RunRequest) -> RunResult:
        """Run the design.

        Raises:
            ToolError: when a tool is missing.
            SimulationError: when the simulation cannot be built or dies.
        """
        ...
