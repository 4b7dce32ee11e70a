"""Times as medians with their spread, and memory as what the allocator handed out."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils.benchmark import Timer

from mase_hw.errors import ConfigError

Name = TypeVar("Name", bound=Hashable)
DEVICES = ("cpu", "cuda")
# The profiler otherwise writes two lines to standard error per use.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")


@dataclass(frozen=True)
class Timing:
    """Repeated measurements of one call.

    Attributes:
        median_s: median seconds of a call.
        spread_s: third minus first quartile, seconds.
        runs: measurements.
    """

    median_s: float
    spread_s: float
    runs: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """Return median and spread of measurements."""
        first, median, third = np.percentile(np.asarray(seconds), [25, 50, 75])
        return cls(float(median), float(third - first), len(seconds))


def interleaved(calls: Mapping[Name, Callable[[], Any]], rounds: int = 9) -> dict[Name, Timing]:
    """Time `calls` in turn, `rounds` times, so that a busy machine hurts all of them alike.

    Each is called twice before the first measurement, and then as often per measurement as fits
    in about 20 ms. Uses torch's current number of threads; CUDA calls are synchronized.
    """
    timers, repeats = {}, {}
    for name, call in calls.items():
        call()
        timers[name] = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
        once = timers[name].timeit(1).median
        repeats[name] = max(1, min(1000, int(0.02 / max(once, 1e-9))))
    seconds: dict[Name, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, timer in timers.items():
            seconds[name].append(timer.timeit(repeats[name]).median)
    return {name: Timing.of(values) for name, values in seconds.items()}


def check_device(device: str) -> torch.device:
    """Return the torch device.

    Raises:
        ConfigError: for another word, or when there is no such device here.
    """
    if device not in DEVICES:
        raise ConfigError(f"device is {device!r}; allowed: {', '.join(DEVICES)}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is 'cuda', but this machine has no CUDA device; allowed: cpu")
    return torch.device(device)


def peak_memory_bytes(call: Callable[[], Any], device: torch.device) -> int:
    """Return the largest growth of allocated tensor memory while `call` runs."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - before)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        call()
    running = peak = 0
    for change in _memory_changes(profiler):
        running += change
        peak = max(peak, running)
    return peak


def operators_run(call: Callable[[], Any], device: torch.device) -> dict[str, float]:
    """Return self time in microseconds by operator name over one `call`."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        call()
    return {
        event.key: float(
            event.self_device_time_total if device.type == "cuda" else event.self_cpu_time_total
        )
        for event in profiler.key_averages()
    }


def _memory_changes(profiler: Any) -> list[int]:
    """Return the allocator's changes in order of time, bytes; frees are negative."""
    events = profiler.profiler.kineto_results.events()
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    return [nbytes for _, nbytes in sorted(changes)]
