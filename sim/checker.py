"""The one checker: codes of the integer reference against the beats a simulation recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mase_hw.emit.design import Stream
from mase_hw.sim.engine import Recording
from mase_hw.sim.layout import StreamLayout


@dataclass(frozen=True)
class Mismatch:
    """One element that differs.

    Attributes:
        stream: the stream it was seen on.
        node: the graph node (layer) whose result the stream carries.
        inference: number of the inference, from 0.
        index: tensor index within the inference.
        beat: beat within the inference.
        lane: lane of the beat.
        expected: code of the reference; None for a beat that should not exist.
        got: code of the simulation; None for a beat that never came.
        cycle: cycle in which the beat moved; None when it never did.
        seed: seed of the run.
        waveform: path of the recorded waveform.
        where: the node's module and the user's source line, as far as they are known.
    """

    stream: str
    node: str
    inference: int
    index: tuple[int, ...]
    beat: int
    lane: int
    expected: int | None
    got: int | None
    cycle: int | None
    seed: int
    waveform: str | None = None
    where: str = ""

    def __str__(self) -> str:
        index = ", ".join(map(str, self.index))
        wave = f", waveform {self.waveform}" if self.waveform else ""
        expected = "no beat" if self.expected is None else self.expected
        got = "no beat" if self.got is None else self.got
        cycle = "-" if self.cycle is None else self.cycle
        where = f" ({self.where})" if self.where else ""
        return (
            f"first mismatch in {self.node}{where}, stream {self.stream}, element [{index}] of "
            f"inference {self.inference}: expected {expected}, got {got} (beat {self.beat}, lane "
            f"{self.lane}, cycle {cycle}, seed {self.seed}{wave})"
        )

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serialisable description."""
        return asdict(self)


@dataclass(frozen=True)
class StreamCheck:
    """The verdict on one stream.

    Attributes:
        elements: elements compared.
        mismatches: those that differ, never came, or came too much.
        first: the first of them.
        codes: what came, `[inferences, *shape]`; zero where nothing came.
    """

    elements: int
    mismatches: int
    first: Mismatch | None
    codes: Tensor


def check_stream(
    stream: Stream,
    expected: Tensor,
    recording: Recording,
    *,
    seed: int = 0,
    waveform: Path | None = None,
    where: str = "",
) -> StreamCheck:
    """Compare a stream with the codes `[inferences, *shape]` it should carry.

    Padding lanes are not looked at. A beat that is missing or too much counts as one mismatch for
    each of its elements.
    """
    layout, spec = StreamLayout(stream), stream.spec
    wanted = spec.to_beats(expected.reshape(-1, *spec.shape)).numpy()
    got = layout.unpack(recording.beats).numpy()
    length = max(len(wanted), len(got))
    # Surplus beats are laid over the elements of the inferences that would follow.
    inferences = -(-length // spec.beats)
    real = np.tile(layout.elements >= 0, (inferences, 1))[:length]
    common = min(len(wanted), len(got))
    wrong = real.copy()
    wrong[:common] &= wanted[:common] != got[:common]
    first = None
    if wrong.any():
        row, lane = (int(item) for item in np.argwhere(wrong)[0])
        beat = row % spec.beats
        flat = int(layout.elements[beat, lane])
        first = Mismatch(
            stream.name,
            stream.node,
            row // spec.beats,
            tuple(int(item) for item in np.unravel_index(flat, spec.shape)),
            beat,
            lane,
            int(wanted[row, lane]) if row < len(wanted) else None,
            int(got[row, lane]) if row < len(got) else None,
            int(recording.cycles[row]) if row < len(got) else None,
            seed,
            str(waveform) if waveform else None,
            where,
        )
    filled = np.zeros_like(wanted)
    filled[:common] = got[:common]
    codes = spec.from_beats(torch.from_numpy(filled))
    return StreamCheck(int(expected.numel()), int(wrong.sum()), first, codes)


def first_of(checks: Sequence[StreamCheck]) -> Mismatch | None:
    """Return the mismatch of the first stream that has one."""
    return next((check.first for check in checks if check.first is not None), None)
