"""GPU timing with CUDA events: warm, synchronized, medians. What is timed, while time is left."""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch

SLOWEST_SECONDS = 0.1  # of one timed call
Call = Callable[[], Any]
Sampler = Callable[[torch.Tensor, int], Any]
Case = TypeVar("Case")


def clouds(shape: Callable[[int], Any], n: int, batch: int) -> torch.Tensor:
    return torch.from_numpy(shape(n)).cuda().expand(batch, -1, -1).contiguous()


def in_time(cases: Iterable[Case], until: float) -> Iterator[Case]:
    """The cases that begin before `until`, and a line for each of the others."""
    for case in cases:
        if time.monotonic() <= until:
            yield case
        else:
            print(f"left out: {case}, the time is up")


def seconds(call: Call, rounds: int) -> float:
    """Median seconds of a call on the GPU, after two to warm up."""
    times = []
    for i in range(rounds + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        if i >= 2:
            times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def rounds_for(once: float) -> int:
    return 3 if once > 0.05 else 11


def timed(call: Call) -> float:
    call()
    return seconds(call, rounds_for(seconds(call, 1)))


def step_microseconds(sampler: Sampler, xyz: torch.Tensor, m: int) -> Any:
    """Microseconds per step, over as many samples as fit SLOWEST_SECONDS."""
    few = min(m, 64)
    once = seconds(lambda: sampler(xyz, few), 1) / few
    samples = max(few, min(m, int(SLOWEST_SECONDS / once)))
    total = timed(lambda: sampler(xyz, samples))
    return {"us_per_step": 1e6 * total / samples, "ms": 1e3 * total, "samples": samples}
