"""Host time of the GPU's engine with nothing behind the calls of CUDA; needs no GPU.

python -m benchmarks.service.gpu_host

Each batch of messages is read, staged and answered as on a GPU, but the library of
csrc/cuda/serving is one that does nothing, and pinned memory is not locked. What is left is the
time that the server's host spends on a batch, to which a card adds the driver's calls.
"""

import asyncio
import ctypes
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.common.point_sets import lidar
from benchmarks.common.report import describe, heading, table
from benchmarks.service.load import request
from farpoint_server.codec.raw_sample import RawSample
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.cuda import CudaEngine
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import manager_of
from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.compute.transfer import device, library
from farpoint_server.compute.transfer.queue import TransferQueue
from farpoint_server.compute.work import Outcome

CPU = torch.device("cpu")
NOTHING = """
#include <cstdint>
extern "C" {
int64_t farpoint_sample_scratch(const void*) { return 0; }
int32_t farpoint_sample_start(const void*) { return 0; }
int32_t farpoint_wait(void*, int64_t) { return 0; }
const char* farpoint_cuda_error(int32_t) { return ""; }
int32_t farpoint_pin(void*, int64_t, int32_t) { return 0; }
int32_t farpoint_unpin(void*, int32_t) { return 0; }
}
"""
# Points, samples, messages of a batch.
CASES = ((1024, 64, 1), (1024, 64, 64), (16_384, 4096, 1), (120_000, 4096, 1), (120_000, 4096, 8))
LIMITS = RequestLimits(1 << 30, 1 << 30, 1 << 20)
COLUMNS = (
    "points",
    "samples",
    "messages",
    "read",
    "submit",
    "respond",
    "scheduled",
    "of a message",
)


class NoDevice(device.CudaDevice):
    """Streams and events without CUDA; memory of the host."""

    def __init__(self) -> None:
        super().__init__(torch.device("cuda", 0))

    def stream(self) -> Any:
        return SimpleNamespace(cuda_stream=1)

    def event(self, _: Any) -> Any:
        return SimpleNamespace(cuda_event=1, synchronize=lambda: None)

    def on(self, _: Any) -> Any:
        return nullcontext()

    def pinned(self, size: int) -> device.Block:
        return device.Block(torch.zeros(size, dtype=torch.uint8))

    def memory(self, _: Any, size: int) -> device.Block:
        return device.Block(torch.empty(size, dtype=torch.uint8))  # which nothing touches


def use_nothing(folder: Path) -> None:
    """Compiles the library that does nothing, and puts it where the server's is."""
    source, target = folder / "nothing.cpp", folder / "nothing.so"
    source.write_text(NOTHING)
    subprocess.run(["c++", "-shared", "-fPIC", "-O2", source, "-o", target], check=True)
    loaded = ctypes.CDLL(str(target))
    library.library = device.library = lambda: loaded  # type: ignore[assignment]


class Times:
    """Microseconds of steps, by name; medians."""

    def __init__(self) -> None:
        self._seen: dict[str, list[float]] = {}

    def since(self, name: str, begun: float) -> float:
        now = time.perf_counter()
        self._seen.setdefault(name, []).append(1e6 * (now - begun))
        return time.perf_counter()

    def median(self, name: str) -> float:
        return statistics.median(self._seen[name])


async def measured(engine: CudaEngine, points: int, samples: int, messages: int) -> dict[str, Any]:
    scheduler = DeviceScheduler(engine, 1 << 20)
    scheduler.start()
    raws = [request(lidar(points) + i, samples) for i in range(messages)]
    times = Times()

    def works() -> list[RawSample]:
        read = [RawSample.read(raw, LIMITS, 1 << 62, time.monotonic()) for raw in raws]
        return [work for work in read if work is not None]

    async def one(work: RawSample) -> bytes | None:
        return work.respond(await scheduler.run(work, 60))

    for _ in range(100 if points * messages < 100_000 else 15):
        begun = time.perf_counter()
        batch = works()
        begun = times.since("read", begun)
        answers: Sequence[Any] = await engine.submit(Batch(batch))
        begun = times.since("submit", begun)
        for work, answer in zip(batch, answers, strict=True):
            assert work.respond(Outcome(answer, 0, 0))
        begun = times.since("respond", begun)
        await asyncio.gather(*map(one, works()))
        times.since("scheduled", begun)
    await scheduler.stop()
    steps = {name: round(times.median(name), 1) for name in COLUMNS[3:7]}
    each = round(steps["scheduled"] / messages, 1)
    return {"points": points, "samples": samples, "messages": messages, **steps, COLUMNS[7]: each}


async def run() -> list[dict[str, Any]]:
    memory = manager_of(CPU, Gate())
    transfers = TransferQueue(NoDevice(), memory.hold)
    engine = CudaEngine(CPU, 1, memory, transfers=transfers)
    try:
        return [await measured(engine, *case) for case in CASES]
    finally:
        engine.close()


def main() -> None:
    np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        use_nothing(Path(folder))
        rows = asyncio.run(run())
    print(heading(describe("torch", "numpy")))
    print("\nMicroseconds, medians:\n")
    print(table(COLUMNS, ([row[key] for key in COLUMNS] for row in rows)))


if __name__ == "__main__":
    main()
